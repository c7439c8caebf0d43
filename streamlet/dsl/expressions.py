"""Expressions: what to compute from a record, as a value that can be looked into.

    flights.filter(sl.col("dep_delay") > 0)

An expression goes wherever a function of key and value goes, and is compiled to one. What it is
made of can be read, so that Spark may do a part of the work before Python sees the record.

Null is SQL's: a comparison or calculation with None is None, ``&`` and ``|`` know three answers,
and a filter keeps what is true. All else is Python's: whole numbers have no end, ``/`` gives a
float and fails on zero, NaN is equal to nothing.
"""

from __future__ import annotations

import operator as operators
import typing
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import count
from keyword import iskeyword
from typing import Any, ClassVar, Literal, is_typeddict

import attrs

from streamlet.absent import explains_misuse
from streamlet.arguments import told_by_form
from streamlet.dsl.graph.inference import UNKNOWN, without_none
from streamlet.errors import TopologyError, WrongTypeError
from streamlet.serdes.json_types import bare_type
from streamlet.user_code import listed, shown

Function = Callable[[Any, Any], Any]

#: A value of each type that calculations are known of.
_SAMPLES: dict[Any, Any] = {
    bool: True,
    int: 1,
    float: 1.0,
    str: "a",
    Decimal: Decimal(1),
    timedelta: timedelta(1),
    datetime: datetime(2000, 1, 1, tzinfo=UTC),
    date: date(2000, 1, 1),
}
_CALCULATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operators.add,
    "-": operators.sub,
    "*": operators.mul,
    "/": operators.truediv,
}
_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
#: Levels of operators that are one text of Python, which takes 200 levels of brackets.
_DEEPEST = 40


@explains_misuse
class Expression:
    """Base of all expressions. Made by ``col``, ``key``, ``value``, ``lit``, and out of others."""

    __hash__ = object.__hash__

    #: A function of a record's key and value, and of no other two arguments.
    of_record: ClassVar[bool] = True

    def __call__(self, key: Any, value: Any) -> Any:
        """The value for one record; operators use ``compiled`` instead."""
        return compiled(self)(key, value)

    def __bool__(self) -> bool:
        raise WrongTypeError(
            "an expression has no truth yet: use & | ~ for and, or, not, and no a < b < c"
        )

    def __eq__(self, other: object) -> Binary:  # type: ignore[override]
        return Binary("==", self, _expression(other))

    def __ne__(self, other: object) -> Binary:  # type: ignore[override]
        return Binary("!=", self, _expression(other))

    def __lt__(self, other: object) -> Binary:
        return Binary("<", self, _expression(other))

    def __le__(self, other: object) -> Binary:
        return Binary("<=", self, _expression(other))

    def __gt__(self, other: object) -> Binary:
        return Binary(">", self, _expression(other))

    def __ge__(self, other: object) -> Binary:
        return Binary(">=", self, _expression(other))

    def __add__(self, other: object) -> Binary:
        return Binary("+", self, _expression(other))

    def __radd__(self, other: object) -> Binary:
        return Binary("+", _expression(other), self)

    def __sub__(self, other: object) -> Binary:
        return Binary("-", self, _expression(other))

    def __rsub__(self, other: object) -> Binary:
        return Binary("-", _expression(other), self)

    def __mul__(self, other: object) -> Binary:
        return Binary("*", self, _expression(other))

    def __rmul__(self, other: object) -> Binary:
        return Binary("*", _expression(other), self)

    def __truediv__(self, other: object) -> Binary:
        return Binary("/", self, _expression(other))

    def __rtruediv__(self, other: object) -> Binary:
        return Binary("/", _expression(other), self)

    def __and__(self, other: object) -> Binary:
        return Binary("&", self, _expression(other))

    def __or__(self, other: object) -> Binary:
        return Binary("|", self, _expression(other))

    def __invert__(self) -> Unary:
        return Unary("not", self)

    def is_null(self) -> Unary:
        """True if the value is None."""
        return Unary("is null", self)

    def is_not_null(self) -> Unary:
        """True if the value is not None."""
        return Unary("is not null", self)


@attrs.frozen(eq=False)
class Column(Expression):
    """The key, the value, or what the value has under a name."""

    of: Literal["key", "value"]
    name: str | None = None


@attrs.frozen(eq=False)
class Constant(Expression):
    """A constant for every record: None, a bool, int, float, str or bytes."""

    value: Any


@attrs.frozen(eq=False)
class Unary(Expression):
    """``not``, ``is null`` or ``is not null`` of one other."""

    operator: str
    operand: Expression


@attrs.frozen(eq=False)
class Binary(Expression):
    """A comparison, calculation, ``&`` or ``|`` of two others."""

    operator: str
    left: Expression
    right: Expression


@told_by_form
def col(name: str) -> Column:
    """The entry of the value with this name: attribute, or entry of a dict (None if missing).

    Raises:
        WrongTypeError: the name is no text.
    """
    return Column("value", name)


@told_by_form
def key() -> Column:
    """The record's key."""
    return Column("key")


@told_by_form
def value() -> Column:
    """The record's value, as a whole."""
    return Column("value")


@told_by_form
def lit(constant: Any) -> Constant:
    """A constant; seldom needed, for what stands beside an expression becomes one.

    Raises:
        WrongTypeError: it is none that an expression can have.
    """
    if type(constant) not in (type(None), bool, int, float, str, bytes):
        raise WrongTypeError(
            f"an expression cannot have {shown(constant)}: it takes text, bytes, numbers, bool and "
            "None"
        )
    return Constant(constant)


def _expression(other: object) -> Expression:
    return other if isinstance(other, Expression) else lit(other)


def plain(function: Any, value_type: Any = UNKNOWN) -> Any:
    """An expression compiled to a function; other functions unchanged."""
    return compiled(function, value_type) if isinstance(function, Expression) else function


def compiled(expression: Expression, value_type: Any = UNKNOWN) -> Function:
    """A function of key and value; it bears what it was made of as ``expression``.

    Args:
        expression: what to compute.
        value_type: of the values, where it is known: names are then looked up quickest.

    Raises:
        TopologyError: the values have no such name.
    """
    names: dict[str, Any] = {"_field": _field, "_flag": _flag}
    writer = _Writer(value_type, names)
    function: Any = None
    for part in _pieces(expression):
        # Of a name of its own for each: what holds others calls them.
        function = eval(f"lambda _k, _v: {writer.source(part)}", names)
        names[writer.called(part)] = function
    function.expression, function.value_type = expression, value_type
    made: Function = function
    return made


def _pieces(expression: Expression) -> list[Expression]:
    """The parts to be compiled each by itself, innermost first; the whole is the last."""
    found: list[Expression] = []
    depths: dict[int, int] = {}
    todo = [(expression, False)]
    while todo:
        one, ready = todo.pop()
        inner = _operands(one)
        if not ready:
            todo += [(one, True), *((part, False) for part in inner)]
            continue
        depth = 1 + max((depths[id(part)] for part in inner), default=0)
        if depth >= _DEEPEST and one is not expression:
            found.append(one)
            depth = 0
        depths[id(one)] = depth
    return [*found, expression]


def _operands(one: Expression) -> tuple[Expression, ...]:
    match one:
        case Unary(_, operand):
            return (operand,)
        case Binary(_, left, right):
            return left, right
        case _:
            return ()


def type_of(expression: Expression, key_type: Any, value_type: Any) -> Any:
    """The type of an expression's values beside None, or ``UNKNOWN``."""
    match expression:
        case Column("key"):
            return key_type
        case Column(_, None):
            return value_type
        case Column(_, str() as name):
            return bare_type(without_none(bare_type(_hints(value_type).get(name, UNKNOWN))))
        case Constant(constant):
            return UNKNOWN if constant is None else type(constant)
        case Binary(operator, left, right) if operator in _CALCULATIONS:
            try:
                types = [type_of(one, key_type, value_type) for one in (left, right)]
            except RecursionError:  # so many that their type is of no use
                return UNKNOWN
            return result_of(operator, *types)
        case _:
            return bool


def is_told(of: Any) -> bool:
    """True if it is known what calculations with values of a type give."""
    return any(of is known for known in _SAMPLES)


def result_of(operator: str, left: Any, right: Any) -> Any:
    """The type of what a calculation with two types gives, or ``UNKNOWN``."""
    if not (is_told(left) and is_told(right)):
        return UNKNOWN
    try:
        return type(_CALCULATIONS[operator](_SAMPLES[left], _SAMPLES[right]))
    except TypeError:
        return UNKNOWN


class _Writer:
    """Writes Python for expressions; constants, helpers and parts are in ``names``."""

    def __init__(self, value_type: Any, names: dict[str, Any]) -> None:
        self._value_type, self._names = value_type, names
        self._fresh = (f"_t{i}" for i in count())
        #: The names of parts that are compiled, by their ids.
        self._parts: dict[int, str] = {}

    def called(self, part: Expression) -> str:
        """A name for a part that is compiled; from now on it is called by that."""
        return self._parts.setdefault(id(part), next(self._fresh))

    def source(self, one: Expression) -> str:
        """Python for an expression."""
        if id(one) in self._parts:
            return f"{self._parts[id(one)]}(_k, _v)"
        match one:
            case Column("key"):
                return "_k"
            case Column(_, None):
                return "_v"
            case Column(_, str() as name):
                return self._lookup(name)
            case Constant(constant):
                return self._named(constant)
            case Unary("not", operand):
                it = next(self._fresh)
                return f"(None if ({it} := {self._truth(operand)}) is None else not {it})"
            case Unary(operator, operand):
                sign = "is" if operator == "is null" else "is not"
                return f"({self.source(operand)} {sign} None)"
            case Binary("&" | "|" as operator, left, right):
                a, b = next(self._fresh), next(self._fresh)
                first, second, decides = self._truth(left), self._truth(right), operator == "|"
                return (
                    f"({decides} if ({a} := {first}) is {decides} else "
                    f"{decides} if ({b} := {second}) is {decides} else "
                    f"None if {a} is None or {b} is None else {not decides})"
                )
            case Binary(operator, left, right):
                a, b = next(self._fresh), next(self._fresh)
                return (
                    f"(None if ({a} := {self.source(left)}) is None or "
                    f"({b} := {self.source(right)}) is None else {a} {operator} {b})"
                )
            case _:
                raise AssertionError(one)

    def _truth(self, one: Expression) -> str:
        """Like ``source``, and the result must be a bool or None."""
        inner = self.source(one)
        is_truth = isinstance(one, Unary) or (
            isinstance(one, Binary) and one.operator in (*_COMPARISONS, "&", "|")
        )
        return inner if is_truth else f"_flag({inner})"

    def _named(self, constant: Any) -> str:
        name = next(self._fresh)
        self._names[name] = constant
        return name

    def _lookup(self, name: str) -> str:
        of = self._value_type
        if of is dict or typing.get_origin(of) is dict or is_typeddict(of):
            return f"(None if _v is None else _v.get({self._named(name)}))"
        if isinstance(of, type) and _hints(of) and name.isidentifier() and not iskeyword(name):
            if name not in _hints(of) and not hasattr(of, name):
                raise TopologyError(
                    f"col({shown(name)}): {of.__name__} has no such attribute; it has "
                    f"{listed(_hints(of))}"
                )
            return f"(None if _v is None else _v.{name})"
        if of in _WHOLE and not hasattr(of, name):
            raise TopologyError(
                f"col({shown(name)}): {of.__name__} has no such attribute; sl.value() is the value"
            )
        return f"_field(_v, {self._named(name)})"


#: Types of values that have no fields.
_WHOLE = (str, int, float, bool, bytes)


def _hints(of: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(of) if isinstance(of, type) else {}
    except (NameError, TypeError):
        return {}


def _field(value: Any, name: str) -> Any:
    if value is None:
        return None
    return value.get(name) if isinstance(value, dict) else getattr(value, name)


def _flag(answer: Any) -> bool | None:
    if answer is None or type(answer) is bool:
        return answer
    raise TypeError(f"expected true or false, got {shown(answer)}")
