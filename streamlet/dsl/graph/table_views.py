"""Views: the rows of a table without a store of its own, made of those of the table above."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from streamlet.dsl.operators.copies import Own
from streamlet.lazy_results import refuse_answer
from streamlet.topology.operator import TaskContext

Function = Callable[..., Any]

#: ``(key, value or None) -> value or None``: what a table without a store of its own makes of the
#: row of the table it comes from.
BoundView = Callable[[Any, Any], Any]
#: ``(key, time or -1) -> time or -1`` of that row, ms.
BoundTimes = Callable[[Any, int], int]


@attrs.frozen
class TableView:
    """Makes the view of a task. ``stores`` are those that the view reads.

    ``times`` makes what tells the times of its rows; None: they are those of the rows below.
    """

    bound: Callable[[TaskContext], BoundView]
    stores: tuple[str, ...] = ()
    times: Callable[[TaskContext], BoundTimes] | None = None


def filter_view(function: Function, keep: bool) -> TableView:
    """The rows of a filtered table."""

    def view(key: Any, row: Any) -> Any:
        if row is None:
            return None
        answer = function(key, row)
        if answer is not True and answer is not False:
            refuse_answer(answer)
        return row if bool(answer) is keep else None

    return TableView(lambda _: view)


def map_values_view(function: Function, takes: int, own: Own, tombstones: bool) -> TableView:
    """The rows of a table with mapped values; with ``tombstones`` also of rows not there."""

    def view(key: Any, row: Any) -> Any:
        if row is None and not tombstones:
            return None
        made = function(row) if takes == 1 else function(key, row)
        return made if own is None else own(made)

    return TableView(lambda _: view)
