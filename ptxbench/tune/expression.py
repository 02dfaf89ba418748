"""Arithmetic and comparison in a specification: checked when it is read, and never run as Python.

Python's parser makes the tree, of which only numbers, text, names, `+ - * / // % **`, comparisons,
`and or not`, `a if b else c`, and calls of `FUNCTIONS` are taken. Everything else is refused by its name.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from ptxbench.core.errors import InputError

Value = int | float | str
# What computes an expression, or a part of one, from the values of its names.
Run = Callable[[Mapping[str, Value]], Value]

# Longer ones are no expression that a person wrote; chosen.
_MAX_TEXT = 500
_MAX_NODES = 200
# Numbers beyond these mean a slip, and would take for ever to compute exactly.
_MAX_NUMBER = 1e18
_MAX_POWER = 64


def _ceil_div(a: float, b: float) -> float:
    return -(-a // b)


FUNCTIONS: Mapping[str, Callable[..., float]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "ceil_div": _ceil_div,
    "log2": math.log2,
}
_BINARY: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_COMPARE: Mapping[type[ast.cmpop], Callable[[Value, Value], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_UNARY: Mapping[type[ast.unaryop], Callable[[float], float]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
}
_WRAPPERS = (ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.Compare, ast.IfExp, ast.Load)
_ALLOWED = (
    *_WRAPPERS,
    *(ast.BinOp, ast.UnaryOp, ast.Constant, ast.Name, ast.Call),
    *_BINARY,
    *_COMPARE,
    *_UNARY,
)


@dataclass(frozen=True)
class Expression:
    """A checked expression; `parse` makes it.

    Attributes:
        text: As it was written.
        place: Where it stands, for messages.
    """

    text: str
    place: str

    def __reduce__(self) -> tuple[type[Expression], tuple[str, str]]:
        """Go to another process as text."""
        return Expression, (self.text, self.place)

    @cached_property
    def _tree(self) -> ast.expr:
        return ast.parse(self.text.strip(), mode="eval").body

    @cached_property
    def _run(self) -> Run:
        return _runs(self._tree)

    @cached_property
    def names(self) -> frozenset[str]:
        """Names that it needs a value for."""
        called = {id(n.func) for n in ast.walk(self._tree) if isinstance(n, ast.Call)}
        found = (n for n in ast.walk(self._tree) if isinstance(n, ast.Name) and id(n) not in called)
        return frozenset(n.id for n in found)

    def value(self, values: Mapping[str, Value]) -> Value:
        """Return its value.

        Raises:
            InputError: It divides by zero, mixes text and numbers, or leaves the range of numbers.
        """
        try:
            found = self._run(values)
        except (ArithmeticError, TypeError, ValueError) as error:
            raise InputError(f"{self.place}: {self.text!r} has no value: {error}") from error
        if isinstance(found, float) and not math.isfinite(found):
            raise InputError(f"{self.place}: {self.text!r} is no finite number")
        return found

    def number(self, values: Mapping[str, Value], least: float = -math.inf) -> float:
        """Return its value, a number that is not below `least`.

        Raises:
            InputError: It has none.
        """
        found = self.value(values)
        if isinstance(found, str):
            raise InputError(f"{self.place}: {self.text!r} must be a number, not {found!r}")
        if found < least:
            raise InputError(f"{self.place}: {self.text!r} must be {least:g} or more, not {found:g}")
        return found

    def whole(self, values: Mapping[str, Value], least: int = 0) -> int:
        """Return its value, a whole number that is not below `least`.

        Raises:
            InputError: It is none.
        """
        found = self.number(values)
        if found != int(found) or found < least:
            raise InputError(
                f"{self.place}: {self.text!r} must be a whole number from {least}, not {found:g}"
            )
        return int(found)


def parse(text: object, place: str, known: Collection[str]) -> Expression:
    """Check an expression.

    Args:
        text: The expression; a number stands for itself.
        place: Where it stands, for messages.
        known: Names that it may use.

    Raises:
        InputError: It does not parse, is too long, has a name that is not known, or is more than arithmetic.
    """
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise InputError(f"{place}: {text!r} must be a number or an expression in quotes")
    written = str(text)
    if len(written) > _MAX_TEXT:
        raise InputError(f"{place}: an expression of {len(written)} characters is over {_MAX_TEXT}")
    expression = Expression(written, place)
    try:
        nodes = list(ast.walk(expression._tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"{place}: {written!r} is no expression ({error.__class__.__name__})") from error
    if len(nodes) > _MAX_NODES:
        raise InputError(f"{place}: an expression of {len(nodes)} parts is over {_MAX_NODES}")
    for node in nodes:
        _check(node, written, place)
    unknown = sorted(expression.names - set(known))
    if unknown:
        have = ", ".join(sorted(known)) or "none"
        raise InputError(f"{place}: {written!r} has the unknown name {unknown[0]}; known: {have}")
    return expression


def _check(node: ast.AST, text: str, place: str) -> None:
    if not isinstance(node, _ALLOWED):
        what = type(node).__name__
        raise InputError(f"{place}: {text!r} holds {what}, and only arithmetic and comparison are allowed")
    if isinstance(node, ast.Constant) and (
        isinstance(node.value, bool) or not isinstance(node.value, int | float | str)
    ):
        raise InputError(f"{place}: {text!r} holds {node.value!r}, which is neither number nor text")
    if isinstance(node, ast.Call) and (
        not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS or node.keywords
    ):
        raise InputError(f"{place}: {text!r} may call only {', '.join(FUNCTIONS)}")


def _runs(node: ast.expr) -> Run:
    """Return what computes a node: a space of thousands asks it for each, so the tree is walked once."""
    match node:
        case ast.Constant():
            constant = _bounded(node.value)  # type: ignore[arg-type]
            return lambda _: constant
        case ast.Name():
            name = node.id
            return lambda values: values[name]
        case ast.UnaryOp():
            unary, operand = _UNARY[type(node.op)], _runs(node.operand)
            return lambda values: _bounded(unary(operand(values)))  # type: ignore[arg-type]
        case ast.BinOp():
            return _binary(type(node.op), _runs(node.left), _runs(node.right))
        case ast.BoolOp():
            whole, parts = all if isinstance(node.op, ast.And) else any, [_runs(one) for one in node.values]
            return lambda values: int(whole(one(values) for one in parts))
        case ast.IfExp():
            test, body, other = map(_runs, (node.test, node.body, node.orelse))
            return lambda values: body(values) if test(values) else other(values)
        case ast.Compare():
            return _compared(node)
        case ast.Call(func=ast.Name(id=called)):
            function, arguments = FUNCTIONS[called], [_runs(one) for one in node.args]
            return lambda values: _bounded(function(*(one(values) for one in arguments)))
    raise TypeError(type(node).__name__)


def _binary(kind: type[ast.operator], left: Run, right: Run) -> Run:
    def run(values: Mapping[str, Value]) -> Value:
        a, b = left(values), right(values)
        if isinstance(a, str) or isinstance(b, str):
            raise TypeError("text is only compared")
        if kind is ast.Pow and abs(b) > _MAX_POWER:
            raise OverflowError(f"a power over {_MAX_POWER}")
        return _bounded(operation(a, b))

    operation = _BINARY[kind]
    return run


def _compared(node: ast.Compare) -> Run:
    first = _runs(node.left)
    others = [
        (_COMPARE[type(kind)], _runs(one)) for kind, one in zip(node.ops, node.comparators, strict=True)
    ]

    def run(values: Mapping[str, Value]) -> int:
        left = first(values)
        for compare, other in others:
            right = other(values)
            if not compare(left, right):
                return 0
            left = right
        return 1

    return run


def _bounded(value: Value) -> Value:
    if isinstance(value, complex):
        raise ArithmeticError("a complex number")  # noqa: TRY004 - an arithmetic fault
    if not isinstance(value, str) and abs(value) > _MAX_NUMBER:
        raise OverflowError(f"a number over {_MAX_NUMBER:g}")
    return value
