"""The recorded joins of two streams: the function ``foo_bar`` is the topology ``foo-bar``."""

from __future__ import annotations

import streamlet as sl
from tests.oracle.helpers import first, out, pair, stream

WITHIN = sl.join_windows("50ms")
WITHIN_GRACE = sl.join_windows("50ms", grace="30ms")


def _sides(app: sl.App) -> tuple[sl.KStream[str, str], sl.KStream[str, str]]:
    return stream(app, "left"), stream(app, "right")


def stream_stream_inner(app: sl.App) -> None:
    left, right = _sides(app)
    out(left.join(right, pair, within=WITHIN, value=str))


def stream_stream_inner_grace(app: sl.App) -> None:
    left, right = _sides(app)
    out(left.join(right, pair, within=WITHIN_GRACE, value=str))


def stream_stream_inner_asymmetric(app: sl.App) -> None:
    """The right record may be 20 older or 60 newer than the left one."""
    left, right = _sides(app)
    within = sl.join_windows(before="20ms", after="60ms")
    out(left.join(right, pair, within=within, value=str))


def stream_stream_inner_after_only(app: sl.App) -> None:
    """The right record is 10 to 60 newer than the left one."""
    left, right = _sides(app)
    within = sl.join_windows(before="-10ms", after="60ms", grace="30ms")
    out(left.join(right, pair, within=within, value=str))


def stream_stream_left(app: sl.App) -> None:
    left, right = _sides(app)
    out(left.left_join(right, pair, within=WITHIN, value=str))


def stream_stream_left_grace(app: sl.App) -> None:
    left, right = _sides(app)
    out(left.left_join(right, pair, within=WITHIN_GRACE, value=str))


def stream_stream_left_asymmetric_grace(app: sl.App) -> None:
    left, right = _sides(app)
    within = sl.join_windows(before="20ms", after="60ms", grace="30ms")
    out(left.left_join(right, pair, within=within, value=str))


def stream_stream_outer(app: sl.App) -> None:
    left, right = _sides(app)
    out(left.outer_join(right, pair, within=WITHIN, value=str))


def stream_stream_outer_grace(app: sl.App) -> None:
    left, right = _sides(app)
    out(left.outer_join(right, pair, within=WITHIN_GRACE, value=str))


def stream_stream_outer_asymmetric(app: sl.App) -> None:
    left, right = _sides(app)
    within = sl.join_windows(before="60ms", after="10ms")
    out(left.outer_join(right, pair, within=within, value=str))


def stream_stream_outer_emit_interval(app: sl.App) -> None:
    left, right = _sides(app)
    within = sl.join_windows("50ms", grace="30ms", emit_interval="1s")
    out(left.outer_join(right, pair, within=within, value=str))


def self_join(app: sl.App) -> None:
    one = stream(app)
    out(one.join(one, pair, within=sl.join_windows("20ms", grace="20ms"), value=str))


def chain_join_group_window(app: sl.App) -> None:
    left, right = _sides(app)
    joined = left.join(right, pair, within=WITHIN_GRACE, value=str)
    windowed = joined.group_by(lambda k, v: first(v), key=str).windowed_by(
        sl.tumbling("100ms", grace="30ms")
    )
    out(windowed.count(store="counts"))
