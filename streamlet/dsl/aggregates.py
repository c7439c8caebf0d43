"""Aggregates as values: ``count()``, ``sum_(…)``, ``mean(…)``, ``max_(…)``, … of an expression.

    grouped.aggregate(sl.sum_(sl.col("dep_delay")))
    grouped.aggregate({"flights": sl.count(), "worst": sl.max_(sl.col("dep_delay"))})

Nulls do not count, as in SQL; but the sum of none is 0, and where there is no smallest, largest,
first or last one yet, and no mean, there is no row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from decimal import Decimal
from math import isfinite
from types import GenericAlias, NoneType
from typing import Any, Literal, Optional, TypedDict, get_origin

import attrs

from streamlet.absent import explains_misuse
from streamlet.arguments import told_by_form
from streamlet.dsl.expressions import Expression, Function, compiled, is_told, result_of, type_of
from streamlet.dsl.graph.inference import UNKNOWN
from streamlet.errors import TopologyError, WrongTypeError
from streamlet.serdes.json_types import type_name
from streamlet.user_code import printable, shown

#: The sums of nothing, by the types of what is added where they are no int; a mean is of that type.
_ZEROS: Mapping[Any, Any] = {Decimal: Decimal(0), timedelta: timedelta(0)}
#: Types of several values, which have no sum that begins with 0.
_CONTAINERS = (list, dict, tuple, set, frozenset)
#: Types that come back from JSON as they are, whatever the type of the document.
_DOCUMENT = frozenset({NoneType, bool, int, float, str, list, dict})


@explains_misuse
@attrs.frozen(eq=False)
class Aggregation:
    """One result per key."""

    kind: Literal["count", "sum", "mean", "min", "max", "first", "last", "collect", "distinct"]
    of: Expression | None = None

    def __attrs_post_init__(self) -> None:
        if self.kind != "count" and not isinstance(self.of, Expression):
            call = f"{self.kind}_" if self.kind in ("sum", "min", "max") else self.kind
            raise WrongTypeError(
                f"{call}() expects an expression such as sl.col('price'), not {shown(self.of)}"
            )

    def type_of(self, key_type: Any, value_type: Any) -> Any:
        """The type of the result, or ``UNKNOWN``."""
        if self.of is None:
            return int
        of = type_of(self.of, key_type, value_type)
        if self.kind == "mean":
            return of if of in _ZEROS else float
        if self.kind in ("collect", "distinct"):
            return list if of is UNKNOWN else GenericAlias(list, (of,))
        return int if self.kind == "sum" and of is bool else of

    def kept_type(self, key_type: Any, value_type: Any) -> Any:
        """The type of what the store keeps of it, or ``UNKNOWN``."""
        of = self.type_of(key_type, value_type)
        if self.kind != "mean":
            return of
        return list if of is float else GenericAlias(tuple, (of, int))


@told_by_form
def count() -> Aggregation:
    """Number of records."""
    return Aggregation("count")


@told_by_form
def sum_(of: Expression) -> Aggregation:
    """The sum of the values that are not None, else 0: numbers, ``Decimal`` and timedeltas."""
    return Aggregation("sum", of)


@told_by_form
def mean(of: Expression) -> Aggregation:
    """Arithmetic mean of what is not None: a float, or of ``Decimal`` or timedeltas one of them.

    The store keeps the sum and the number, as a list.
    """
    return Aggregation("mean", of)


@told_by_form
def min_(of: Expression) -> Aggregation:
    """The smallest of the values that are not None."""
    return Aggregation("min", of)


@told_by_form
def max_(of: Expression) -> Aggregation:
    """The largest of the values that are not None."""
    return Aggregation("max", of)


@told_by_form
def first(of: Expression) -> Aggregation:
    """The first value that is not None, in the order of arrival."""
    return Aggregation("first", of)


@told_by_form
def last(of: Expression) -> Aggregation:
    """The last that came and is not None."""
    return Aggregation("last", of)


@told_by_form
def collect(of: Expression) -> Aggregation:
    """List of all that is not None, as it came. A row grows with each record."""
    return Aggregation("collect", of)


@told_by_form
def distinct(of: Expression) -> Aggregation:
    """List of the different ones that are not None, as each came first."""
    return Aggregation("distinct", of)


@explains_misuse
@attrs.frozen(eq=False)
class MadeOf:
    """The parts of an aggregator, which carries them as ``made_of``; ``kept``: type of its rows."""

    wanted: Aggregations
    key_type: Any
    value_type: Any
    kept: Any


#: What ``aggregate`` takes in place of an initializer and an aggregator.
Aggregations = Aggregation | Mapping[str, Aggregation]

Initializer = Callable[[], Any]
Aggregator = Callable[[Any, Any, Any], Any]


def functions(
    wanted: Aggregations, key_type: Any, value_type: Any
) -> tuple[Initializer, Aggregator, Any]:
    """Initializer, aggregator, and the type of what they make, ``UNKNOWN`` where it is not known.

    What they make is the result already, unless ``finishing`` says otherwise.
    """
    if isinstance(wanted, Aggregation):
        begin, step = _one(wanted, key_type, value_type)
        kept = wanted.kept_type(key_type, value_type)
        _mark(step, MadeOf(wanted, key_type, value_type, kept))
        return begin, step, kept
    parts = [(name, *_one(one, key_type, value_type, name)) for name, one in wanted.items()]
    begins = [(name, begin) for name, begin, _ in parts]
    steps = [(name, step) for name, _, step in parts]

    def together(key: Any, value: Any, so_far: dict[str, Any]) -> dict[str, Any]:
        return {name: step(key, value, so_far[name]) for name, step in steps}

    types = {name: one.kept_type(key_type, value_type) for name, one in wanted.items()}
    kept = _dict_of(wanted, types)
    _mark(together, MadeOf(wanted, key_type, value_type, kept))
    return lambda: {name: begin() for name, begin in begins}, together, kept


def _dict_of(wanted: Mapping[str, Aggregation], types: Mapping[str, Any]) -> Any:
    """The type of a dict of results, or of what is kept of them.

    Raises:
        TopologyError: the name of one is no text.
    """
    for name in wanted:
        if type(name) is not str or "\0" in name or printable(name) != name:
            raise TopologyError(f"aggregate(): results have texts as names, not {shown(name)}")
    fields = {name: _may_be_none(one, types[name]) for name, one in wanted.items()}
    text = ", ".join(f"{name}={type_name(of)}" for name, of in fields.items())
    return TypedDict(f"dict({text})", fields)  # type: ignore[operator]


def _may_be_none(one: Aggregation, of: Any) -> Any:
    always = one.kind in ("count", "sum", "collect", "distinct") or of is list or _is_pair(of)
    return Any if of is UNKNOWN else of if always else Optional[of]  # noqa: UP045 - of is no class


def _is_pair(of: Any) -> bool:
    return isinstance(of, GenericAlias) and of.__origin__ is tuple


def _mark(aggregator: Any, made_of: MadeOf) -> None:
    aggregator.made_of = made_of


def _one(
    wanted: Aggregation, key_type: Any, value_type: Any, name: str = ""
) -> tuple[Initializer, Aggregator]:
    """The functions that begin and go on with one result; ``name`` if it is one of a dict.

    Raises:
        TopologyError: values of this type have no sum.
    """
    if wanted.of is None:
        return lambda: 0, lambda _key, _value, so_far: so_far + 1
    of = compiled(wanted.of, value_type)
    kind = type_of(wanted.of, key_type, value_type)
    if name and kind is UNKNOWN:
        of = _of_document(of, name)
    if wanted.kind in ("sum", "mean"):
        return _summing(wanted.kind == "mean", of, kind)
    if wanted.kind in ("min", "max"):
        return lambda: None, _best(of, least=wanted.kind == "min")
    begin, add = _RULES[wanted.kind]

    def step(key: Any, value: Any, so_far: Any) -> Any:
        new = of(key, value)
        return so_far if new is None else add(so_far, new)

    return begin, step


def _summing(mean: bool, of: Function, kind: Any) -> tuple[Initializer, Aggregator]:
    zero = _ZEROS.get(kind, 0.0 if kind is float and not mean else 0)
    many = any((get_origin(kind) or kind) is container for container in _CONTAINERS)
    if many or (result_of("+", type(zero), kind) is UNKNOWN and is_told(kind)):
        what = "mean()" if mean else "sum_()"
        raise TopologyError(f"aggregate(): {what} of {type_name(kind)}, which cannot be added")
    if not mean:
        return (
            lambda: zero,
            lambda key, value, so_far: so_far if (new := of(key, value)) is None else so_far + new,
        )
    pair: Any = tuple if kind in _ZEROS else list

    def step(key: Any, value: Any, so_far: Any) -> Any:
        new = of(key, value)
        return so_far if new is None else pair((_finite(so_far[0] + new), so_far[1] + 1))

    return lambda: pair((zero, 0)), step


def _finite(total: Any) -> Any:
    """A sum as it is kept for a mean; else one record would spoil the row for all behind it."""
    if type(total) is float and not isfinite(total):
        raise ValueError(f"mean(): the sum of the values would be {total}, of which JSON has none")
    return total


def _of_document(of: Function, name: str) -> Function:
    """Wraps a function to refuse results that an untyped dict would not give back unchanged."""

    def checked(key: Any, value: Any) -> Any:
        new = of(key, value)
        if type(new) not in _DOCUMENT:
            kind = type(new).__name__
            raise TypeError(
                f"aggregate(), {shown(name)}: a {kind} would come back as another type, since the "
                f"type of the values is not known here: give it with value= where they are made"
            )
        return new

    return checked


def _best(of: Callable[[Any, Any], Any], *, least: bool) -> Aggregator:
    def better(key: Any, value: Any, so_far: Any) -> Any:
        new = of(key, value)
        if new is None or so_far is None:
            return so_far if new is None else new
        return new if (new < so_far if least else new > so_far) else so_far

    return better


def _collected(so_far: list[Any], new: Any) -> list[Any]:
    so_far.append(new)
    return so_far


def _distinct(so_far: list[Any], new: Any) -> list[Any]:
    if not _has(so_far, new):
        so_far.append(new)
    return so_far


def _has(some: list[Any], value: Any) -> bool:
    """True if a value is there; true is not 1, as it is to Python, nor is false 0."""
    return value in some and any(_is_same(one, value) for one in some)


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, bool) is not isinstance(other, bool) or one != other:
        return False
    if isinstance(one, list | tuple):
        return all(map(_is_same, one, other))
    if isinstance(one, dict):
        return all(_is_same(part, other[name]) for name, part in one.items())
    return True


#: What a row begins with, and how a value comes to it. The row is the aggregator's own to change.
_RULES: Mapping[str, tuple[Initializer, Callable[[Any, Any], Any]]] = {
    "first": (lambda: None, lambda so_far, new: new if so_far is None else so_far),
    "last": (lambda: None, lambda so_far, new: new),
    "collect": (list, _collected),
    "distinct": (list, _distinct),
}


def merging(wanted: Aggregations) -> Callable[[Any, Any, Any], Any]:
    """``(key, kept, kept) -> kept``: what the records of both would have given, the first first."""
    if isinstance(wanted, Aggregation):
        merge = _MERGES[wanted.kind]
        return lambda _key, one, other: merge(one, other)
    parts = {name: merging(one) for name, one in wanted.items()}
    return lambda key, one, other: {
        name: merge(key, one[name], other[name]) for name, merge in parts.items()
    }


def _of_both(better: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    return lambda one, other: better((v for v in (one, other) if v is not None), default=None)


_MERGES: Mapping[str, Callable[[Any, Any], Any]] = {
    "count": lambda one, other: one + other,
    "sum": lambda one, other: one + other,
    "mean": lambda one, other: type(one)((_finite(one[0] + other[0]), one[1] + other[1])),
    "min": _of_both(min),
    "max": _of_both(max),
    "first": lambda one, other: other if one is None else one,
    "last": lambda one, other: one if other is None else other,
    "collect": lambda one, other: [*one, *other],
    "distinct": lambda one, other: [*one, *(value for value in other if not _has(one, value))],
}


def finishing(wanted: Aggregations) -> Callable[[Any], Any] | None:
    """``(kept) -> result``; None where what is kept is the result."""
    if isinstance(wanted, Aggregation):
        return _mean if wanted.kind == "mean" else None
    means = [name for name, one in wanted.items() if one.kind == "mean"]
    if not means:
        return None
    return lambda kept: {**kept, **{name: _mean(kept[name]) for name in means}}


def _mean(kept: Any) -> Any:
    total, number = kept
    return None if not number else total / number


def result_type(wanted: Aggregations, key_type: Any, value_type: Any) -> Any:
    """The type of a result, or ``UNKNOWN``."""
    if isinstance(wanted, Aggregation):
        return wanted.type_of(key_type, value_type)
    types = {name: one.type_of(key_type, value_type) for name, one in wanted.items()}
    return _dict_of(wanted, types)


def is_aggregations(given: object) -> bool:
    """True if ``aggregate`` was given aggregations instead of an initializer.

    Raises:
        WrongTypeError: they are a dict of something else, or of nothing.
    """
    if not isinstance(given, Mapping) or callable(given):
        return isinstance(given, Aggregation)
    wrong = next((name for name, one in given.items() if not isinstance(one, Aggregation)), None)
    if wrong is not None or not given:
        what = f"{shown(wrong)} is {shown(given[wrong])}" if given else "it is empty"
        raise WrongTypeError(
            "aggregate({…}) expects aggregations by their names, such as {'n': sl.count()}, but "
            f"{what}"
        )
    return True
