"""Leaves out in Spark what a filter would leave out in Python, where that is certain.

A condition in front of the map drops a record only if three things are sure: that the record can be
read as its types say, that the first filter behind the source is an expression whose answer is
not true, and that Python comes to the same answer. Whatever is in doubt goes on to Python, where
the filter stands as ever: a record that cannot be read meets the error policy, a number too large
for SQL is compared as Python does it.

What SQL can be sure of: text and bytes; records in JSON of a dataclass, if each field is there once
and has a plain value without escapes. Calculations are those of whole numbers, and a result beyond
64 bits is in doubt. Division, and calculations with floats, are Python's alone.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from streamlet.dsl.expressions import Binary, Column, Constant, Expression, Unary
from streamlet.dsl.graph.inference import without_none
from streamlet.dsl.operators.stateless import Filter
from streamlet.serdes import Serde
from streamlet.spark.plan.folds import is_ours
from streamlet.topology.graph import Topology
from streamlet.topology.nodes import ProcessorNode, SourceNode
from streamlet.topology.subtopologies import Subtopology

if TYPE_CHECKING:
    from pyspark.sql import Column as SqlColumn
    from pyspark.sql import DataFrame

_FILTER = "KSTREAM-FILTER-"

#: JSON of a value that reads the same in Python and in SQL, by the field's type.
_TOKENS: Mapping[Any, str] = {
    int: r"(?:0|-?[1-9][0-9]{0,17})",
    float: r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?",
    str: r'"[^"\\\x00-\x1f]*"',
    bool: "true|false",
}
_SQL_TYPES = {int: "bigint", float: "double", bool: "boolean"}
_CONSTANTS = (bool, int, float, str, bytes)

#: Whole numbers that a double has exactly.
_EXACT = 1 << 53
_LONG = 1 << 63


def pushed(rows: DataFrame, topology: Topology, mapped: frozenset[int]) -> DataFrame:
    """Rows of the source without those that are certainly dropped; the very same if none are sure.

    Only in front of subtopologies without state: in others, what is dropped still moves the time.
    """
    for part in topology.subtopologies:
        if part.id in mapped:
            for source in part.sources:
                surely = dropped(part, source)
                if surely is not None:
                    rows = rows.filter(~surely)
    return rows


def filters(topology: Topology, mapped: frozenset[int]) -> bool:
    """True if there is a filter in front that SQL may be able to judge."""
    return any(
        filter_behind(part, source) is not None
        for part in topology.subtopologies
        if part.id in mapped
        for source in part.sources
    )


def dropped(part: Subtopology, source: SourceNode) -> SqlColumn | None:
    """True if a row is certainly dropped; None where that cannot be said of any."""
    from pyspark.sql import functions as f

    found = filter_behind(part, source)
    if found is None:
        return None
    readers = _reader(source.key, "key", None), _reader(source.value, "value", found[1])
    if readers[0] is None or readers[1] is None:
        return None
    answer = _Translation({"key": readers[0], "value": readers[1]})
    predicate = answer.of(found[0])
    if predicate is None or predicate.type is not bool:
        return None
    sure = readers[0].valid & readers[1].valid
    for one in answer.sure:
        sure = sure & one
    sure = sure & ~f.coalesce(predicate.sql, f.lit(False))
    return f.col("topic").isin(*source.topics) & f.coalesce(sure, f.lit(False))


def filter_behind(part: Subtopology, source: SourceNode) -> tuple[Expression, Any] | None:
    """Condition and type of the values of a filter that is all that follows on a source."""
    children = part.children(source.name)
    if len(children) != 1 or not children[0].startswith(_FILTER) or source.timestamp is not None:
        return None
    node = part.node(children[0])
    if not isinstance(node, ProcessorNode) or node.stores:
        return None
    context: Any = None  # a filter asks for none
    operator = node.factory(context)
    if not isinstance(operator, Filter) or not operator.keep:
        return None
    expression = getattr(operator.function, "expression", None)
    if expression is None:
        return None
    return expression, getattr(operator.function, "value_type", None)


@attrs.frozen(eq=False)
class _Typed:
    """SQL of a known Python type; NULL stands for None. Of None alone the type is NoneType."""

    sql: SqlColumn
    type: Any
    #: The constant it is, for comparisons that are sure of some constants only.
    constant: Any = None


@attrs.frozen(eq=False)
class _Reader:
    """The way to read a column of bytes: as a whole, and by name."""

    valid: SqlColumn
    whole: _Typed | None
    fields: Mapping[str, _Typed]


def _reader(serde: Serde[Any], column: str, value_type: Any) -> _Reader | None:
    """None where it cannot be sure of any record."""
    from pyspark.sql import functions as f

    raw = f.col(column)
    if is_ours(serde, bytes):
        return _Reader(f.lit(True), _Typed(raw, bytes), {})
    text = raw.cast("string")
    valid = raw.isNull() | f.is_valid_utf8(text)
    if is_ours(serde, str):
        return _Reader(valid, _Typed(text, str), {})
    fields = plain_fields(value_type)
    if not fields or not is_ours(serde, value_type):
        return None
    matches = raw.isNull() | (f.is_valid_utf8(text) & text.rlike(record_pattern(fields)))
    return _Reader(matches, None, {name: _field(text, name, of) for name, of in fields.items()})


def plain_fields(of: Any) -> dict[str, tuple[Any, bool]]:
    """Type of each field of a dataclass, and whether it may be None; empty if one is not plain."""
    if not (isinstance(of, type) and dataclasses.is_dataclass(of)) or hasattr(of, "__post_init__"):
        return {}
    found = {}
    try:
        hints = typing.get_type_hints(of, include_extras=True)
    except NameError:
        return {}
    for field in dataclasses.fields(of):
        hint = without_none(hints[field.name])
        if (
            not any(hint is known for known in _TOKENS)
            or not field.init
            or not field.name.isascii()
        ):
            return {}
        found[field.name] = (hint, hint is not hints[field.name])
    return found


def record_pattern(fields: Mapping[str, tuple[Any, bool]]) -> str:
    """A pattern of JSON objects that have each field once, with values that read alike.

    As many members as there are fields, and each field among them: so none is there twice.
    """
    member = "|".join(
        rf'"{name}"\s*:\s*(?:{_TOKENS[of]}{"|null" if null else ""})'
        for name, (of, null) in fields.items()
    )
    all_there = "".join(rf'(?=.*"{name}"\s*:)' for name in fields)
    more = len(fields) - 1
    return (
        rf"\A{all_there}[ \t]*\{{[ \t]*(?:{member})"
        rf"(?:[ \t]*,[ \t]*(?:{member})){{{more}}}[ \t]*\}}[ \t]*\z"
    ).replace(r"\s*", r"[ \t]*")


def _field(text: SqlColumn, name: str, of: tuple[Any, bool]) -> _Typed:
    from pyspark.sql import functions as f

    pattern = rf'"{name}"[ \t]*:[ \t]*({_TOKENS[of[0]]}|null)'
    token = f.nullif(f.regexp_extract(text, pattern, 1), f.lit("null"))
    if of[0] is str:
        return _Typed(f.substring(token, f.lit(2), f.length(token) - 2), str)
    return _Typed(token.try_cast(_SQL_TYPES[of[0]]), of[0])


class _Translation:
    """Expressions to SQL, as far as the answers are the same; ``sure`` are the further conditions.

    Args:
        readers: of ``key`` and ``value``.
    """

    def __init__(self, readers: Mapping[str, _Reader]) -> None:
        self._readers = readers
        self.sure: list[SqlColumn] = []

    def of(self, one: Expression) -> _Typed | None:
        """The expression in SQL; None where SQL would give something else."""
        from pyspark.sql import functions as f

        match one:
            case Column(of, None):
                return self._readers[of].whole
            case Column(of, str() as name):
                return self._readers[of].fields.get(name)
            case Constant(constant) if type(constant) in _CONSTANTS:
                if type(constant) is int and not -_LONG <= constant < _LONG:
                    return None
                if type(constant) is float and not abs(constant) <= _EXACT:  # NaN neither
                    return None
                return _Typed(f.lit(constant), type(constant), constant)
            case Unary(operator, operand):
                return self._unary(operator, self.of(operand))
            case Binary(operator, left, right):
                first, second = self.of(left), self.of(right)
                if first is None or second is None:
                    return None
                return self._binary(operator, first, second)
            case _:
                return None

    def _unary(self, operator: str, inner: _Typed | None) -> _Typed | None:
        if inner is None:
            return None
        if operator == "not":
            return _Typed(~inner.sql, bool) if inner.type is bool else None
        null = inner.sql.isNull()
        return _Typed(null if operator == "is null" else ~null, bool)

    def _binary(self, operator: str, left: _Typed, right: _Typed) -> _Typed | None:
        if operator in "&|":
            if left.type is not bool or right.type is not bool:
                return None
            both = left.sql & right.sql if operator == "&" else left.sql | right.sql
            return _Typed(both, bool)
        if operator in "+-*/":
            return self._calculated(operator, left, right)
        if not _comparable(left, right):
            return None
        compare = {
            "==": left.sql == right.sql,
            "!=": left.sql != right.sql,
            "<": left.sql < right.sql,
            "<=": left.sql <= right.sql,
            ">": left.sql > right.sql,
            ">=": left.sql >= right.sql,
        }
        return _Typed(compare[operator], bool)

    def _calculated(self, operator: str, left: _Typed, right: _Typed) -> _Typed | None:
        from pyspark.sql import functions as f

        if operator == "/" or (left.type, right.type) != (int, int):
            return None
        calculate = {"+": f.try_add, "-": f.try_subtract, "*": f.try_multiply}[operator]
        first, second = left.sql.cast("bigint"), right.sql.cast("bigint")
        result = calculate(first, second)
        self.sure.append(first.isNull() | second.isNull() | result.isNotNull())
        return _Typed(result, int)


def _comparable(left: _Typed, right: _Typed) -> bool:
    """True if SQL compares these two as Python does."""
    if left.type is right.type:
        return True
    if {left.type, right.type} != {int, float}:
        return False
    whole = left if left.type is int else right  # a double beside it: SQL makes it one too
    return whole.constant is not None and abs(whole.constant) <= _EXACT
