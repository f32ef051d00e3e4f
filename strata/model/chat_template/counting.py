"""Rewrites a template's syntax tree so that everything it does is charged.

Decides where charges stand: at the head of each loop, macro and block body (as many steps as the body has nodes, bodies
inside it not counted), in each loop filter, and around the operations that the sandbox has no hook for (`~`,
comparisons, slices, literals). Calls, filters and arithmetic have hooks: see `environment`.
"""

from collections.abc import Callable
from typing import Any

from jinja2 import nodes
from jinja2.exceptions import TemplateSyntaxError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.visitor import NodeTransformer

from strata.model.chat_template import operations
from strata.model.chat_template.budget import current


def charge_steps(count: int) -> bool:
    """True, so that it can stand in a condition."""
    current().step(count)
    return True


HOOKS: dict[str, Callable[..., Any]] = {
    "charge_steps": charge_steps,
    "join_texts": operations.join_texts,
    "compare": operations.compare,
    "take_slice": operations.take_slice,
    "keep_literal": operations.keep_literal,
    "as_key": operations.as_key,
}
"""What a rewritten template calls, by the environment attribute it must find it under."""

_BODIES = (nodes.For, nodes.Macro, nodes.CallBlock, nodes.Block)
_MAX_NAME_CHARS = 256
_REFUSED = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends, nodes.EvalContextModifier)


class GenerationTag(Extension):
    """`{% generation %}` marks for training what the assistant said; for a prompt it is its body."""

    tags = {"generation"}  # noqa: RUF012 (jinja reads it as a set)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def count_everything(template: nodes.Template) -> nodes.Template:
    """The same template, charging the current budget. It changes the tree it is given.

    Raises TemplateSyntaxError for statements that would load other templates or turn escaping on."""
    for node in template.find_all(_REFUSED):
        raise TemplateSyntaxError(f"{type(node).__name__} has no place in a chat template", node.lineno)
    counted = _Charger().visit(template)
    assert isinstance(counted, nodes.Template)
    return counted


def _num_nodes(parent: nodes.Node) -> int:
    return sum(1 if isinstance(child, _BODIES) else 1 + _num_nodes(child) for child in parent.iter_child_nodes())


def _hook(name: str, *args: nodes.Expr, lineno: int) -> nodes.Call:
    assert name in HOOKS, name
    return nodes.Call(nodes.EnvironmentAttribute(name), list(args), [], None, None, lineno=lineno)


class _Charger(NodeTransformer):
    def _body(self, node: nodes.For | nodes.Macro | nodes.CallBlock | nodes.Block) -> nodes.Node:
        steps = nodes.Const(1 + _num_nodes(node))
        self.generic_visit(node)
        charge = nodes.ExprStmt(_hook("charge_steps", steps, lineno=node.lineno), lineno=node.lineno)
        node.body.insert(0, charge)
        if isinstance(node, nodes.For) and node.test is not None:
            node.test = nodes.And(_hook("charge_steps", steps, lineno=node.lineno), node.test)
        return node

    visit_For = visit_Macro = visit_CallBlock = visit_Block = _body

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _hook("join_texts", nodes.List(node.nodes), lineno=node.lineno)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        self.generic_visit(node)
        left = node.expr
        result: nodes.Expr | None = None
        for operand in node.ops:
            pair = _hook("compare", nodes.Const(operand.op), left, operand.expr, lineno=node.lineno)
            result = pair if result is None else nodes.And(result, pair)
            left = operand.expr
        assert result is not None
        return result

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        if not isinstance(node.arg, nodes.Slice):
            return node
        bounds = [bound or nodes.Const(None) for bound in (node.arg.start, node.arg.stop, node.arg.step)]
        return _hook("take_slice", node.node, *bounds, lineno=node.lineno)

    def visit_Getattr(self, node: nodes.Getattr) -> nodes.Node:
        if len(node.attr) > _MAX_NAME_CHARS:
            raise TemplateSyntaxError(f"a name of {len(node.attr)} characters, limit {_MAX_NAME_CHARS}", node.lineno)
        return self.generic_visit(node)

    def visit_Const(self, node: nodes.Const) -> nodes.Node:
        operations.check_number(node.value)
        return node

    def visit_Pair(self, node: nodes.Pair) -> nodes.Node:
        self.generic_visit(node)
        node.key = _hook("as_key", node.key, lineno=node.lineno)
        return node

    def _literal(self, node: nodes.List | nodes.Tuple | nodes.Dict) -> nodes.Node:
        self.generic_visit(node)
        if isinstance(node, nodes.Tuple) and node.ctx != "load":
            return node
        return _hook("keep_literal", node, lineno=node.lineno)

    visit_List = visit_Tuple = visit_Dict = _literal
