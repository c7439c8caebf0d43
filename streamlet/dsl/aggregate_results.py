"""Results of aggregations whose rows hold something else: a mean's row has sum and number."""

from __future__ import annotations

from typing import Any

from streamlet.dsl.aggregates import Aggregations, finishing, result_type
from streamlet.dsl.graph.inference import UNKNOWN
from streamlet.dsl.table import KTable


def kept_as(wanted: Aggregations | None, value: Any) -> Any:
    """The type that the user gave, if it is that of what the store keeps."""
    return value if wanted is None or finishing(wanted) is None else None


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
