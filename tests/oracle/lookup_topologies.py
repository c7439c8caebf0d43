"""The recorded topologies with versioned and global tables, named as those in ``topologies``."""

from __future__ import annotations

import streamlet as sl
from tests.oracle.helpers import add, first, out, pair, s, starts, stream, sub


def _globally(app: sl.App) -> sl.GlobalKTable[str, str]:
    return app.global_table("global", key=str, value=str, store="global-store")


def global_table_inner(app: sl.App) -> None:
    left = stream(app, "left")
    out(left.join(_globally(app), pair, on=lambda k, v: first(v), value=str))


def global_table_left(app: sl.App) -> None:
    def joined(k: str, v: str, row: str | None) -> str:
        return f"{s(k)}:{pair(v, row)}"

    left = stream(app, "left")
    out(left.left_join(_globally(app), joined, on=lambda k, v: first(v), value=str))


def _versioned(app: sl.App, topic: str) -> sl.KTable[str, str]:
    store = sl.Materialized(f"{topic}-store", history="200ms")
    return app.table(topic, key=str, value=str, store=store)


def table_versioned_filter(app: sl.App) -> None:
    """A versioned table: out-of-order updates."""
    out(_versioned(app, "in").filter(lambda k, v: not starts(v, "c")))


def table_versioned_group_by(app: sl.App) -> None:
    groups = _versioned(app, "in").group_by(lambda k, v: (first(v), v), key=str, value=str)
    out(
        groups.aggregate(
            str, lambda k, v, x: add(x, v), lambda k, v, x: sub(x, v), store="aggregated"
        )
    )


def stream_table_versioned(app: sl.App) -> None:
    joined = stream(app, "left").join(_versioned(app, "right"), pair, value=str)
    out(joined)


def stream_table_versioned_grace(app: sl.App) -> None:
    out(stream(app, "left").join(_versioned(app, "right"), pair, grace="40ms", value=str))


def stream_table_versioned_grace_left(app: sl.App) -> None:
    out(stream(app, "left").left_join(_versioned(app, "right"), pair, grace="40ms", value=str))
