"""Templates that a hostile model file could carry. Each must be refused; those of the first table by its cost alone."""

from strata.model.chat_template.template import MAX_SOURCE_CHARS


def again(start: str, step: str, end: str = "") -> str:
    """A loop of 99 steps over `n`, which starts as namespace(start)."""
    return "{% set n = namespace(" + start + ") %}{% for i in range(99) %}" + step + "{% endfor %}" + end


def twice(inner: str) -> str:
    """Two nested loops, as long as the sandbox lets a range be."""
    return "{% for i in range(99999) %}{% for j in range(99999)" + inner + "{% endfor %}{% endfor %}"


ATTACKS_ON_TIME = {
    "nested loops": twice(" %}{{ j }}"),
    "empty nested loops": twice(" %}"),
    "loop filter": twice(" if j < 0 %}"),
    "shared nesting printed": again("x=['a']", "{% set n.x = [n.x, n.x] %}", "{{ n.x }}"),
    "shared nesting json": again("x=['a']", "{% set n.x = [n.x, n.x] %}", "{{ n.x | tojson }}"),
    "shared nesting compared": again(
        "x=['a'], y=['a']", "{% set n.x = [n.x, n.x] %}{% set n.y = [n.y, n.y] %}", "{{ n.x == n.y }}"
    ),
    "shared nesting sorted": again("x=['a']", "{% set n.x = [n.x, n.x] %}", "{{ n.x | sort }}"),
    "nested list kept": "{% set n = namespace(x=[]) %}" + twice(" %}{% set n.x = [n.x, 1, 2, 3, 4, 5, 6, 7, 8, 9] %}"),
    "search again and again": again("x='a' * 4000000", "{% if 'b' in n.x %}{% endif %}"),
    "slice again and again": again("x='a' * 4000000", "{% set y = n.x[1:] %}"),
    "macro tree": "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "lazy pipeline": again("x=9", "{{ range(99999) | map('string') | select('none') | first }}"),
    "sum of a range": again("x=9", "{{ range(99999) | sum }}"),
    "search a range": again("x=9", "{{ 1.5 in range(99999) }}"),
    "loop length of a pipeline": again(
        "x=9", "{% for x in range(99999) | map('abs') %}{{ loop.length }}{% break %}{% endfor %}"
    ),
}

ATTACKS_ON_MEMORY_AND_MANNERS = {
    "big range": "{% for a in range(10 ** 12) %}{% endfor %}",
    "power": "{{ 9 ** 9 ** 9 ** 9 }}",
    "power of powers": again("x=2", "{% set n.x = n.x ** n.x %}", "{{ n.x }}"),
    "growing sum": again("x=2 ** 1000", "{% set n.x = n.x + n.x %}", "{{ n.x }}"),
    "text times number": "{{ 'a' * 10 ** 10 }}",
    "number times text": "{{ 10 ** 10 * 'a' }}",
    "list times number": "{{ [1] * 10 ** 9 }}",
    "percent width": "{{ '%999999999d' % 1 }}",
    "percent star": "{{ '%*d' % (999999999, 1) }}",
    "format filter width": "{{ '%999999999d' | format(1) }}",
    "format method": "{{ '{:>999999999}'.format(1) }}",
    "format_map": "{{ '{a:>999999999}'.format_map({'a': 1}) }}",
    "center": "{{ 'a'.center(10 ** 10) }}",
    "ljust": "{{ 'a'.ljust(10 ** 10) }}",
    "zfill": "{{ 'a'.zfill(10 ** 10) }}",
    "expandtabs": "{{ '\t'.expandtabs(999999999) }}",
    "center filter": "{{ 'a' | center(999999999) }}",
    "indent filter": "{{ 'a\nb' | indent(999999999) }}",
    "tojson indent": "{{ [[[1]]] | tojson(indent=999999999) }}",
    "round": "{{ 1.5 | round(999999999, 'floor') }}",
    "encode": "{{ 'a'.encode() }}",
    "to_bytes": "{{ (1).to_bytes(999999999, 'big') }}",
    "translate": "{{ 'a'.translate({97: 'b' }) }}",
    "doubling": again("x='ab'", "{% set n.x = n.x + n.x %}"),
    "doubling tilde": again("x='ab'", "{% set n.x = n.x ~ n.x %}"),
    "doubling replace": again("x='aa'", "{% set n.x = n.x.replace('a', 'aa') %}"),
    "doubling replace filter": again("x='aa'", "{% set n.x = n.x | replace('a', 'aa') %}"),
    "doubling join": again("x='ab'", "{% set n.x = n.x.join([n.x, n.x]) %}"),
    "doubling join filter": again("x='ab'", "{% set n.x = [n.x, n.x] | join(n.x) %}"),
    "doubling block": again("x='ab'", "{% set x %}{{ n.x }}{{ n.x }}{% endset %}{% set n.x = x %}"),
    "doubling macro": "{% macro d(x) %}{{ x }}{{ x }}{% endmacro %}" + again("x='ab'", "{% set n.x = d(n.x) %}"),
    "doubling list": again("x=[1]", "{% set n.x = n.x + n.x %}"),
    "split": "{% set x = 'ab ' * 2000000 %}{{ x.split() | length }}",
    "split at": "{% set x = 'ab ' * 2000000 %}{{ x.split(' ') | length }}",
    "splitlines": "{% set x = 'ab\n' * 2000000 %}{{ x.splitlines() | length }}",
    "list of characters": "{% set x = 'aé日' * 2000000 %}{{ x | list | length }}",
    "strip many": "{% set x = 'a' * 4000000 %}{% set y = 'b' * 4000000 %}{{ y.strip(x) }}",
    "output": "{% for i in range(99999) %}{{ 'a' * 100 }}{% endfor %}",
    "macro recursion": "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
    "block recursion": "{% block a %}{{ self.a() }}{% endblock %}",
    "call recursion": (
        "{% macro f() %}{{ caller() }}{% call f() %}x{% endcall %}{% endmacro %}{% call f() %}y{% endcall %}"
    ),
    "loop recursion": "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "strftime width": "{{ strftime_now('%999999999Y') }}",
    "strftime long": "{{ strftime_now('%c' * 4000000) }}",
    "private attribute": "{{ ''.__class__.__mro__ }}",
    "globals of a function": "{{ raise_exception.__globals__.x }}",
    "private by filter": "{{ ['a'] | map(attribute='__class__') | list | first | string | length + none }}",
    "change a message": "{{ messages.append(1) }}",
    "change a dict": "{{ messages[0].update(a=1) }}",
    "include": "{% include 'x' %}",
    "import": "{% import 'x' as y %}",
    "extends": "{% extends 'x' %}",
    "autoescape": "{% autoescape true %}{% endautoescape %}",
    "raise": "{{ raise_exception('roles must alternate') }}",
    "raise long": "{{ raise_exception('ab ' * 2500000) }}",
    "division": "{{ 1 / 0 }}",
    "undefined": "{{ missing.attribute }}",
    "wrong types": "{{ 1 + 'a' }}",
    "lookup": "{{ missing() }}",
    "unset variable": "{% if false %}{% set x = 1 %}{% endif %}{{ x.y }}",
    "lone surrogate": "{{ '\\ud800' }}",
    "unknown filter": "{{ 1 | nosuchfilter }}",
    "unknown test": "{{ 1 is nosuchtest }}",
    "syntax": "{% for %}",
    "unclosed": "{% if true %}",
    "deep expression": "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "deep list": "{{ " + "[" * 3000 + "]" * 3000 + " }}",
    "deep blocks": "{% if true %}" * 120 + "x" + "{% endif %}" * 120,
    "deep loops": "{% for i in [1] %}" * 24 + "x" + "{% endfor %}" * 24,
    "long source": "a" * (MAX_SOURCE_CHARS + 1),
}


def doubled(use: str, *, times: int = 60, of: str = "('x',)", to: str = "(n.v, n.v)") -> str:
    """`use` of n.v, which shares its parts so that it is 2 ** times values when written out."""
    steps = "{% for i in range(" + str(times) + ") %}{% set n.v = " + to + " %}{% endfor %}"
    return "{% set n = namespace(v=" + of + ") %}" + steps + use


def many(statement: str) -> str:
    return "{% for i in range(99999) %}{% for j in range(99999) %}" + statement + "{% endfor %}{% endfor %}"


def on_large(use: str) -> str:
    """`use` again and again of n.v, a value that is only just allowed."""
    return doubled(many(use), times=15)


def collected(name: str, arguments: str) -> str:
    """A macro that keeps what it was called with, called with that twice."""
    macro = "{% macro f(n) %}{% set n.v = " + name + " %}{% endmacro %}"
    return (
        macro + "{% set n = namespace(v=1) %}{% for i in range(60) %}{{ f(n, " + arguments + ") }}{% endfor %}{{ n.v }}"
    )


_TOO_LARGE = "one value of it is too large"
_RAN_ON = "it ran on"

ATTACKS_BY_SHARING = {
    "key of a dict": (doubled("{% set d = {n.v: 1} %}"), _TOO_LARGE),
    "key of a message": (doubled("{{ messages[0][n.v] }}"), _TOO_LARGE),
    "key of dict()": (doubled("{{ dict([(n.v, 1)]) }}"), _TOO_LARGE),
    "key of namespace()": (doubled("{{ namespace([(n.v, 1)]) }}"), _TOO_LARGE),
    "key of get": (doubled("{{ messages[0].get(n.v) }}"), _TOO_LARGE),
    "path of map": (doubled("{{ messages | map(attribute=n.v) | list }}"), _TOO_LARGE),
    "name of map": (doubled("{{ messages | map(n.v) | list }}"), _TOO_LARGE),
    "in a dict": (doubled("{{ n.v in messages[0] }}"), _TOO_LARGE),
    "is in a dict": (doubled("{{ n.v is in messages[0] }}"), _TOO_LARGE),
    "is filter": (doubled("{{ n.v is filter }}"), "No test named"),
    "is lower": (doubled("{{ n.v is lower }}"), _TOO_LARGE),
    "equal": (doubled("{{ n.v == n.v }}", of="[1]", to="[n.v, n.v]"), _TOO_LARGE),
    "less": (doubled("{{ n.v < n.v }}", of="[1]", to="[n.v, n.v]"), _TOO_LARGE),
    "printed": (doubled("{{ n.v }}"), _TOO_LARGE),
    "formatted": (doubled("{{ '%s' % (n.v,) }}"), _TOO_LARGE),
    "encoded": (doubled("{{ n.v | tojson }}"), _TOO_LARGE),
    "sorted": (doubled("{{ [n.v, n.v] | sort }}"), _TOO_LARGE),
    "unique": (doubled("{{ [{'a': n.v}] | unique(attribute='a') | list }}"), _TOO_LARGE),
    "changed": (doubled("{% for i in [1] %}{{ loop.changed(n.v) }}{% endfor %}"), _TOO_LARGE),
    "raised": (doubled("{{ raise_exception(n.v) }}"), _TOO_LARGE),
    "name of what is missing": (doubled("{{ messages[n.v].x }}"), _TOO_LARGE),
    "dicts": (doubled("{{ n.v | tojson }}", of="{}", to="{'a': n.v, 'b': n.v}"), _TOO_LARGE),
    "dict()": (doubled("{{ n.v }}", of="{}", to="dict(a=n.v, b=n.v)"), _TOO_LARGE),
    "tuple sum": (doubled("{{ n.v }}", to="((n.v,) + (n.v,))"), _TOO_LARGE),
    "list product": (doubled("{{ n.v }}", of="[1]", to="[n.v] * 2"), _TOO_LARGE),
    "sum filter": (doubled("{{ n.v }}", of="[1]", to="[[n.v], [n.v]] | sum(start=[])"), _TOO_LARGE),
    "map to lists": (doubled("{{ n.v }}", of="[1]", to="[n.v, n.v] | map('list') | list"), _TOO_LARGE),
    "items": (doubled("{{ n.v }}", of="{}", to="dict({'a': n.v, 'b': n.v} | items)"), _TOO_LARGE),
    "macro varargs": (collected("varargs", "n.v, n.v"), _TOO_LARGE),
    "macro kwargs": (collected("kwargs", "a=n.v, b=n.v"), _TOO_LARGE),
    "namespaces in a list": (doubled("{{ n.v }}", to="[namespace(a=n.v)]"), "may hold plain data, not a"),
    "methods in a list": ("{{ [messages[0].get] }}", "may hold plain data, not a"),
    "long chain of tuples": (
        "{% set n = namespace(v=()) %}{% for i in range(99999) %}{% set n.v = (n.v,) %}{% endfor %}{{ {n.v: 1} }}",
        "nested more than 100 levels",
    ),
    "long chain of generators": (
        "{% set n = namespace(v='a') %}" + many("{% set n.v = n.v | map('string') %}") + "{{ n.v | list }}",
        "too much text",
    ),
    "hashed again and again": (on_large("{% set d = {n.v: 1} %}"), "a key or an index"),
    "index again and again": (on_large("{% set d = messages[n.v] %}"), "a key or an index"),
    "asked again and again": (on_large("{% if n.v in messages[0] %}{% endif %}"), _RAN_ON),
    "compared again and again": (on_large("{% if n.v == n.v %}{% endif %}"), _RAN_ON),
    "counted again and again": (on_large("{% if n.v.count(1) %}{% endif %}"), _RAN_ON),
    "unpacked again and again": (
        "{% macro f() %}{{ varargs[0] }}{% endmacro %}{% set x = range(99999) | list %}" + many("{{ f(*x) }}"),
        _RAN_ON,
    ),
    "items again and again": (
        "{% set x = {'a': [1] * 9999} %}" + many("{% if x.items() == 1 %}{% endif %}"), _RAN_ON
    ),
    "view kept again and again": ("{{ [messages[0].items()] }}", "may hold plain data, not a"),
    "views subtracted": ("{{ messages[0].keys() - [1] }}", "is not defined"),
    "number again and again": ("{% set x = '9' * 4000000 %}" + many("{% set y = x | float %}"), _RAN_ON),
    "character by character": ("{% set x = 'ab ' * 99999 %}" + many("{% set y = x | max %}"), _RAN_ON),
    "backward search": ("{% set x = 'a' * 2000000 %}{{ x.rfind('ab' ~ x[:1000000]) }}", _RAN_ON),
    "backward partition": ("{% set x = 'a' * 2000000 %}{{ x.rpartition('ab' ~ x[:1000000]) }}", _RAN_ON),
    "backward split": ("{% set x = 'a' * 2000000 %}{{ x.rsplit('ab' ~ x[:1000000]) }}", _RAN_ON),
    "long path": ("{{ range(99999) | map('string') | map(attribute='0.' * 999999 ~ '0') }}", "an attribute's path"),
    "long path of selectattr": ("{{ ['a'] | selectattr('0.' * 999999 ~ '0') | list }}", "an attribute's path"),
    "long path of sort": ("{{ ['a'] | sort(false, false, '0.' * 999999 ~ '0') }}", "an attribute's path"),
    "long path of min": ("{{ ['a'] | min(false, '0.' * 999999 ~ '0') }}", "an attribute's path"),
    "path of many": (many("{% set y = 'aaaaaaaaa' | map(attribute='" + "0." * 99 + "0') %}"), _RAN_ON),
    "odd": ("{{ '%999999999d' is odd }}", "text has no remainder"),
    "even": ("{{ '%999999999d' is even }}", "text has no remainder"),
    "divisible": ("{{ '%999999999d' is divisibleby 1 }}", "text has no remainder"),
    "rounded text": ("{{ ('a' * 4000000) | round(9, 'floor') }}", "want a number, not a str"),
    "rounded list": ("{{ [1, 2] | round(9, 'ceil') }}", "want a number, not a list"),
    "loop sorted": ("{% for x in [[1], [2]] %}{{ loop | sort }}{% endfor %}", "a loop is no list"),
    "loop searched": ("{% for x in [[1], [2]] %}{{ ([1], 1) in loop }}{% endfor %}", "a loop is no list"),
    "loop joined": ("{% for x in [[1], [2]] %}{{ ''.join(loop) }}{% endfor %}", "may hold plain data, not a"),
    "separators": ("{{ range(60000) | list | tojson(separators=('a' * 1000000, ':')) }}", "separators must be two"),
    "many separators": ("{{ [1] | tojson(separators='a' * 1000000) }}", "separators must be two"),
    "indent of text": ("{{ [1] | tojson(indent='a' * 1000000) }}", "tojson: indent is a str"),
    "indent of depth": (
        doubled("{{ n.v | tojson(indent=16) }}", times=60, of="[0] * 50000", to="[n.v]"), "too much text"
    ),
    "indented line ends": ("{{ ('\\r' * 2000000) | indent(2000) }}", "too much text"),
    "spelled out": ("{{ '%r' % ('\\u0378' * 4000000) }}", "too much text"),
    "long number": ("{{ 0x" + "f" * 50000 + " }}", "a number of 200000 bits"),
    "long name": ("{{ messages." + "a" * 50000 + " }}", "a name of 50000 characters"),
    "number times number": (again("x=2 ** 500", "{% set n.x = n.x * n.x %}"), "a number of 2002 bits"),
}  # fmt: skip
"""Each with what its refusal must say: it is refused for what it does, and not for having run out of a machine."""

HARMLESS_SHARING = {
    "nested namespaces": (doubled("{{ n.v }}", to="namespace(a=n.v, b=n.v)"), "<namespace>"),
    "namespace in itself": ("{% set n = namespace() %}{% set n.v = n %}{{ n.v.v.v }}{{ n == n.v }}", "<namespace>True"),
    "namespace keys": (doubled("{{ n.v == n.v }}", to="namespace(a=n.v, b=n.v)"), "True"),
}
