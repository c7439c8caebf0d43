"""Results of aggregations whose rows hold something else: a mean's row has sum and number."""

from __future__ import annotations

from typing import Any

from streamlet.dsl.aggregates import (
    Aggregations,
    finishing,
    functions,
    is_aggregations,
    result_type,
)
from streamlet.dsl.graph.builder import Builder
from streamlet.dsl.graph.functions import check_begins, check_takes
from streamlet.dsl.graph.inference import UNKNOWN
from streamlet.dsl.graph.kinds import Kind
from streamlet.dsl.table import KTable

_CALL = "aggregate()"


def aggregating(
    builder: Builder, initializer: Any, aggregator: Any, value: Any, of: tuple[Any, Any]
) -> tuple[Aggregations | None, tuple[Any, Any], Kind]:
    """The aggregations that ``aggregate`` is given, or None, the functions, the kind of its rows.

    Args:
        builder: of the application.
        initializer: the aggregations, or the function that a row begins with.
        aggregator: the other function; None: these are aggregations.
        value: type of the results, if the user gave one.
        of: types of the keys and values.

    Raises:
        TopologyError: they are neither.
    """
    if aggregator is None and is_aggregations(initializer):
        *made, inferred = functions(initializer, *of)
        kept = value if finishing(initializer) is None else None  # else the store has other rows
        return initializer, (made[0], made[1]), builder.result(kept, inferred, _CALL, "value")
    check_begins(_CALL, initializer)
    check_takes(_CALL, aggregator, "key", "value", "aggregate")
    return None, (initializer, aggregator), builder.aggregate(value, initializer)


def with_results(
    table: KTable[Any, Any], wanted: Aggregations | None, value: Any, of: tuple[Any, Any]
) -> KTable[Any, Any]:
    """The table of an aggregation's results, in place of that of what its store keeps.

    Args:
        table: of what the store keeps.
        wanted: the aggregations; None: they are functions of the user's.
        value: type of the results, if the user gave one.
        of: types of the keys and values.
    """
    finish = None if wanted is None else finishing(wanted)
    if wanted is None or finish is None:
        return table
    inferred = result_type(wanted, *of)
    given = value if value is not None else None if inferred is UNKNOWN else inferred
    return table.map_values(finish, value=given)
