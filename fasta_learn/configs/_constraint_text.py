"""Conditions on the parameters of a config, written as text."""

import ast
import difflib
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_MAX_EXPONENT = 64


def _power(base: Any, exponent: Any) -> Any:
    # A slip such as 9**9**9 would take all memory.
    if abs(exponent) > _MAX_EXPONENT:
        raise ValueError(f"the exponent {exponent} is above {_MAX_EXPONENT}")
    return base**exponent


_FUNCTIONS: dict[str, Callable[..., Any]] = {"abs": abs, "min": min, "max": max}
_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, container: item in container,
    ast.NotIn: lambda item, container: item not in container,
}

_Evaluate = Callable[[Mapping[str, Any]], Any]


def compile_constraint(text: str, names: Sequence[str]) -> _Evaluate:
    """Return a function that evaluates a condition on a config.

    Parameters
    ----------
    text : str
        The condition, as in Python.
    names : sequence of str
        The parameters that it may use.

    Returns
    -------
    callable
        Takes a config, returns the value of the condition.

    Raises
    ------
    ValueError
        The text is no expression, uses an unknown name, or something else that a
        condition can't hold.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError) as error:
        raise ValueError(
            f"the constraint {text!r} is no expression ({error}); write one such as "
            "'BLOCK_M * BLOCK_N <= 16384'."
        ) from error
    return _Compiler(text, names).compile(tree.body)


class _Compiler:
    """Turns each node of a syntax tree into a function of the config.

    Only the nodes with a method here are known, so a text can do nothing else.
    """

    def __init__(self, text: str, names: Sequence[str]) -> None:
        self._text = text
        self._names = names

    def compile(self, node: ast.AST) -> _Evaluate:
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            raise self._refuse(node)
        evaluate: _Evaluate = method(node)
        return evaluate

    def _constant(self, node: ast.Constant) -> _Evaluate:
        value = node.value
        return lambda config: value

    def _name(self, node: ast.Name) -> _Evaluate:
        name = node.id
        if name not in self._names:
            close = difflib.get_close_matches(name, self._names, n=1)
            hint = f" (do you mean {close[0]}?)" if close else ""
            raise ValueError(
                f"the constraint {self._text!r} uses {name!r}, which is no "
                f"parameter{hint}; the parameters are {', '.join(self._names)}."
            )
        return lambda config: config[name]

    def _tuple(self, node: ast.Tuple | ast.List | ast.Set) -> _Evaluate:
        items = [self.compile(item) for item in node.elts]
        return lambda config: [item(config) for item in items]

    _list = _set = _tuple

    def _binop(self, node: ast.BinOp) -> _Evaluate:
        left, right = self.compile(node.left), self.compile(node.right)
        apply = self._operator(node.op)
        return lambda config: apply(left(config), right(config))

    def _unaryop(self, node: ast.UnaryOp) -> _Evaluate:
        operand, apply = self.compile(node.operand), self._operator(node.op)
        return lambda config: apply(operand(config))

    def _boolop(self, node: ast.BoolOp) -> _Evaluate:
        values = [self.compile(value) for value in node.values]
        decide = all if isinstance(node.op, ast.And) else any
        return lambda config: decide(value(config) for value in values)

    def _compare(self, node: ast.Compare) -> _Evaluate:
        operands = [self.compile(item) for item in (node.left, *node.comparators)]
        operators = [self._operator(item) for item in node.ops]
        links = list(zip(operators, operands[:-1], operands[1:], strict=True))
        return lambda config: all(
            apply(left(config), right(config)) for apply, left, right in links
        )

    def _ifexp(self, node: ast.IfExp) -> _Evaluate:
        test, body = self.compile(node.test), self.compile(node.body)
        other = self.compile(node.orelse)
        return lambda config: body(config) if test(config) else other(config)

    def _call(self, node: ast.Call) -> _Evaluate:
        name = node.func.id if isinstance(node.func, ast.Name) else None
        if name not in _FUNCTIONS or node.keywords:
            raise self._refuse(node)
        function = _FUNCTIONS[str(name)]
        arguments = [self.compile(argument) for argument in node.args]
        return lambda config: function(*(item(config) for item in arguments))

    def _operator(self, node: ast.AST) -> Callable[..., Any]:
        if type(node) not in _OPERATORS:
            raise self._refuse(node)
        return _OPERATORS[type(node)]

    def _refuse(self, node: ast.AST) -> ValueError:
        part = ast.unparse(node) if isinstance(node, ast.expr) else type(node).__name__
        return ValueError(
            f"the constraint {self._text!r} uses {part!r}, which a text can't; it may "
            "hold numbers, text, parameters, arithmetic, comparisons, and, or, not, "
            f"in, if-else and {', '.join(_FUNCTIONS)}. Pass a function for more."
        )
