"""``suppress``: until when updates of a table are kept back, and the table that comes of it."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from streamlet.absent import explains_misuse
from streamlet.arguments import told_by_form
from streamlet.dsl.graph.durations import Duration, window_ms
from streamlet.dsl.graph.kinds import Kind
from streamlet.dsl.graph.materialized import Materialized, StoreLike
from streamlet.dsl.graph.row_expiry import ttl_of
from streamlet.dsl.graph.table_node import TableNode
from streamlet.dsl.graph.table_views import BoundView, TableView
from streamlet.dsl.graph.uses import TableUse
from streamlet.dsl.operators.copies import owner
from streamlet.dsl.operators.hot_store import accepting, copier
from streamlet.dsl.suppressing.buffer import Suppress
from streamlet.dsl.windowing.windows import SessionWindows
from streamlet.errors import TopologyError
from streamlet.serdes import Serde
from streamlet.state.buffer_rows import buffer_rows
from streamlet.state.store_specs import BufferSpec
from streamlet.state.window_rows import row_keys
from streamlet.topology.operator import OperatorInParts, TaskContext
from streamlet.user_code import shown

#: What becomes of the updates when the buffer is full.
WhenFull = Literal["emit_early", "shut_down"]


@explains_misuse
@attrs.frozen
class Suppressed:
    """Until when updates wait: ``wait_ms``, or if that is None until their window closes."""

    wait_ms: int | None
    max_records: int | None
    max_bytes: int | None
    when_full: WhenFull


@told_by_form
def until_window_closes(
    *, max_records: int | None = None, max_bytes: int | None = None
) -> Suppressed:
    """Send the last update of each window once, when the window closes.

    It closes when stream time has come to its end and the grace (of sessions: and the gap) that the
    windows above have. Stream time is the highest timestamp among the updates. A window whose row
    was deleted before is not sent.

    Args:
        max_records: windows that may wait; None: any number.
        max_bytes: of their keys and values together, as the serdes write them; None: any number.

    With one window or byte more the application stops with a ``BufferFullError``: an earlier result
    would not be final.

    Raises:
        TopologyError: a bound is negative.
    """
    bounds = _bounds("until_window_closes", max_records, max_bytes)
    return Suppressed(None, *bounds, "shut_down")


@told_by_form
def until_time_limit(
    wait: Duration,
    *,
    max_records: int | None = None,
    max_bytes: int | None = None,
    when_full: WhenFull = "emit_early",
) -> Suppressed:
    """Send the last update of each key when ``wait`` has passed since the first one that waits.

    The time that passes is stream time, the highest timestamp among the updates.

    Args:
        wait: the time, as of ``tumbling``.
        max_records: keys that may wait; None: any number.
        max_bytes: of their keys and values together, as the serdes write them; None: any number.
        when_full: ``"emit_early"`` sends those that have waited longest, until the rest fits;
            ``"shut_down"`` stops the application with a ``BufferFullError``.

    Raises:
        TopologyError: ``wait`` is no duration, a bound is negative, or ``when_full`` is unknown.
    """
    if when_full not in ("emit_early", "shut_down"):
        raise TopologyError(
            f"until_time_limit(when_full={shown(when_full)}): expected 'emit_early' or 'shut_down'"
        )
    bounds = _bounds("until_time_limit", max_records, max_bytes)
    return Suppressed(window_ms("until_time_limit(wait=)", wait, 0), *bounds, when_full)


def _bounds(call: str, records: int | None, size: int | None) -> tuple[int | None, int | None]:
    for name, bound in (("max_records", records), ("max_bytes", size)):
        if bound is not None and (type(bound) is not int or bound < 0):
            raise TopologyError(
                f"{call}({name}={shown(bound)}): expected a number from 0 on, or None"
            )
    return records, size


def suppressed_node(
    above: TableNode,
    how: Suppressed,
    store: StoreLike,
    key: Kind,
    value: Kind,
    given: str | None,
) -> TableNode:
    """The node of a table whose updates wait in a buffer.

    Raises:
        TopologyError: windows of the table never close, or it has none.
    """
    if not isinstance(how, Suppressed):
        raise TopologyError(
            f"suppress() takes until_window_closes() or until_time_limit(), not {shown(how)}"
        )
    if above.history_ms is not None:
        raise TopologyError(
            "suppress(): the table is versioned, so its changes may come out of order and none is "
            "the last; give it a store without history="
        )
    serdes = (
        key.needed("suppress()", "key", takes=False),
        value.needed("suppress()", "value", takes=False),
    )
    spec = _buffer(above, how, serdes[0])
    builder = above.builder
    name = builder.graph.own_name("KTABLE-SUPPRESS-", given)
    materialized = Materialized.of(store)
    ttl_of(materialized, "updates wait until they are sent, and are deleted then")
    if given is not None and materialized.name is None:
        materialized = attrs.evolve(materialized, name=f"{given}-store")
    kept = builder.store(
        materialized,
        "KTABLE-SUPPRESS-",
        attrs.evolve(row_keys(serdes[0]), name=f"until {spec.until}: {serdes[0].name}"),
        buffer_rows(serdes[1]),
        buffer=spec,
    )
    above.use.want_olds()
    use = TableUse(parent=above.use, kept=True)

    def make(context: TaskContext) -> OperatorInParts:
        value = serdes[1]
        check, copy = accepting(value), copier(value)
        return Suppress(name, context.store(kept.name), spec, value, check, copy, use)

    builder.named_processor(name, (above.name,), make, writes=kept.name)
    placed = spec.until == "time limit"
    own = owner(serdes[1])

    def sent(context: TaskContext) -> BoundView:
        of = context.store(kept.name).sent_value(placed)
        return of if own is None else lambda key, row: own(of(key, row))

    view = TableView(sent, (kept.name,))
    return attrs.evolve(above, name=name, use=use, views=(*above.views, view))


def _buffer(above: TableNode, how: Suppressed, key: Serde[Any]) -> BufferSpec:
    bounds = how.max_records, how.max_bytes, how.when_full
    if how.wait_ms is not None:
        return BufferSpec(key, "time limit", how.wait_ms, *bounds)
    windows = above.windows
    if windows is None:
        raise TopologyError(
            "suppress(until_window_closes()): the table is not that of windows that close and send "
            "updates; windowed_by(windows) makes such a one of grouped records"
        )
    gap = windows.gap_ms if isinstance(windows, SessionWindows) else 0
    return BufferSpec(key, "window closes", windows.grace_ms + gap, *bounds)
