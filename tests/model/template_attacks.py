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
    "division": "{{ 1 / 0 }}",
    "undefined": "{{ missing.attribute }}",
    "wrong types": "{{ 1 + 'a' }}",
    "lookup": "{{ missing() }}",
    "unset variable": "{% if false %}{% set x = 1 %}{% endif %}{{ x.y }}",
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
