"""The recorded topologies with windows: the function ``foo_bar`` is the topology ``foo-bar``."""

from __future__ import annotations

import streamlet as sl
from tests.oracle.helpers import add, first, grouped, out, pair, stream, table, text

TUMBLING = sl.tumbling("100ms")
TUMBLING_GRACE = sl.tumbling("100ms", grace="30ms")
HOPPING = sl.hopping("100ms", "40ms")
HOPPING_GRACE = sl.hopping("100ms", "50ms", grace="30ms")
SLIDING = sl.sliding("50ms")
SLIDING_GRACE = sl.sliding("50ms", grace="30ms")
SESSION = sl.session("40ms")
SESSION_GRACE = sl.session("40ms", grace="30ms")


def tumbling_count(app: sl.App) -> None:
    out(grouped(app).windowed_by(TUMBLING).count(store="counts"))


def tumbling_count_grace(app: sl.App) -> None:
    out(grouped(app).windowed_by(TUMBLING_GRACE).count(store="counts"))


def tumbling_reduce(app: sl.App) -> None:
    out(grouped(app).windowed_by(TUMBLING_GRACE).reduce(pair, store="reduced"))


def tumbling_aggregate_grace(app: sl.App) -> None:
    windowed = grouped(app).windowed_by(TUMBLING_GRACE)
    out(windowed.aggregate(str, lambda k, v, x: add(x, v), store="aggregated"))


def hopping_count(app: sl.App) -> None:
    out(grouped(app).windowed_by(HOPPING).count(store="counts"))


def hopping_aggregate_grace(app: sl.App) -> None:
    windowed = grouped(app).windowed_by(HOPPING_GRACE)
    out(windowed.aggregate(str, lambda k, v, x: add(x, v), store="aggregated"))


def sliding_count(app: sl.App) -> None:
    out(grouped(app).windowed_by(SLIDING).count(store="counts"))


def sliding_aggregate_grace(app: sl.App) -> None:
    windowed = grouped(app).windowed_by(SLIDING_GRACE)
    out(windowed.aggregate(str, lambda k, v, x: add(x, v), store="aggregated"))


def session_count(app: sl.App) -> None:
    out(grouped(app).windowed_by(SESSION).count(store="counts"))


def session_count_grace(app: sl.App) -> None:
    out(grouped(app).windowed_by(SESSION_GRACE).count(store="counts"))


def _aggregated_sessions(app: sl.App, store: sl.Materialized) -> None:
    """The merger shows which aggregate came first."""
    windowed = grouped(app).windowed_by(SESSION_GRACE)
    out(
        windowed.aggregate(
            str, lambda k, v, x: add(x, v), lambda k, x, y: f"({x}&{y})", store=store
        )
    )


def session_aggregate_long_retention(app: sl.App) -> None:
    """A store that keeps closed sessions: a record in between may still merge them."""
    _aggregated_sessions(app, sl.Materialized("aggregated", retention="1000s"))


def session_aggregate_grace(app: sl.App) -> None:
    _aggregated_sessions(app, sl.Materialized("aggregated"))


def session_reduce_grace(app: sl.App) -> None:
    out(grouped(app).windowed_by(SESSION_GRACE).reduce(pair, store="reduced"))


def unlimited_window_count(app: sl.App) -> None:
    """One window for ever from time 50 on."""
    counts = grouped(app).windowed_by(sl.unlimited("50ms")).count(store="counts")
    out(counts.to_stream().select_key(lambda w, n: f"{w.key}@{w.start}", key=str))


def tumbling_count_rekeyed(app: sl.App) -> None:
    letters = stream(app).group_by(lambda k, v: first(v), key=str)
    out(letters.windowed_by(TUMBLING_GRACE).count(store="counts"))


def window_to_stream_key_mapper(app: sl.App) -> None:
    counts = grouped(app).windowed_by(TUMBLING_GRACE).count(store="counts")
    out(counts.to_stream().select_key(lambda w, n: f"{w.key}@{w.start}", key=str))


def timestamp_extractor(app: sl.App) -> None:
    """The time is the value: a negative one is dropped, null takes the partition's time so far."""

    @sl.with_partition_time
    def time_of(k: str, v: int | None, read: int, partition_time: int) -> int:
        return partition_time if v is None else v

    longs = app.stream("in", key=str, value=int, timestamp=time_of)
    out(longs, "out-stream")
    out(longs.group_by_key().windowed_by(TUMBLING_GRACE).count(store="counts"), "out-count")


KEPT = sl.Materialized("counts", retention="1000s")


def tumbling_count_on_close(app: sl.App) -> None:
    out(grouped(app).windowed_by(TUMBLING, emit="final").count(store=KEPT))


def _kept_as_in_java(windows: sl.TimeWindows | sl.SlidingWindows) -> sl.Materialized:
    """The default retention of Kafka Streams, with which results are lost."""
    return sl.Materialized("counts", retention=windows.kept_ms)


def tumbling_count_on_close_default_retention(app: sl.App) -> None:
    kept = _kept_as_in_java(TUMBLING_GRACE)
    out(grouped(app).windowed_by(TUMBLING_GRACE, emit="final").count(store=kept))


def sliding_count_on_close_default_retention(app: sl.App) -> None:
    kept = _kept_as_in_java(SLIDING_GRACE)
    out(grouped(app).windowed_by(SLIDING_GRACE, emit="final").count(store=kept))


def tumbling_aggregate_on_close_grace(app: sl.App) -> None:
    kept = sl.Materialized("aggregated", retention="1000s")
    windowed = grouped(app).windowed_by(TUMBLING_GRACE, emit="final")
    out(windowed.aggregate(str, lambda k, v, x: add(x, v), store=kept))


def hopping_count_on_close_grace(app: sl.App) -> None:
    out(grouped(app).windowed_by(HOPPING_GRACE, emit="final").count(store=KEPT))


def sliding_count_on_close_grace(app: sl.App) -> None:
    out(grouped(app).windowed_by(SLIDING_GRACE, emit="final").count(store=KEPT))


def session_count_on_close_grace(app: sl.App) -> None:
    out(grouped(app).windowed_by(SESSION_GRACE, emit="final").count(store="counts"))


def tumbling_count_on_close_emit_interval(app: sl.App) -> None:
    closing = grouped(app).windowed_by(TUMBLING_GRACE, emit="final", emit_interval="1s")
    out(closing.count(store=KEPT))


# Suppress.


def suppress_tumbling(app: sl.App) -> None:
    counts = grouped(app).windowed_by(TUMBLING_GRACE).count(store="counts")
    out(counts.suppress(sl.until_window_closes()))


def suppress_hopping(app: sl.App) -> None:
    counts = grouped(app).windowed_by(HOPPING).count(store="counts")
    out(counts.suppress(sl.until_window_closes()))


def suppress_session(app: sl.App) -> None:
    counts = grouped(app).windowed_by(SESSION_GRACE).count(store="counts")
    out(counts.suppress(sl.until_window_closes()))


def suppress_table_time_limit(app: sl.App) -> None:
    out(table(app).suppress(sl.until_time_limit("50ms")))


def suppress_table_early_when_full(app: sl.App) -> None:
    out(table(app).suppress(sl.until_time_limit("200ms", max_records=2)))


def suppress_count_early_when_full(app: sl.App) -> None:
    counts = grouped(app).count(store="counts")
    out(counts.suppress(sl.until_time_limit("100ms", max_records=2)))


def suppress_windows_early_when_full(app: sl.App) -> None:
    counts = grouped(app).windowed_by(TUMBLING_GRACE).count(store="counts")
    out(counts.suppress(sl.until_time_limit("60ms", max_records=3)))


def chain_window_suppress_filter(app: sl.App) -> None:
    counts = grouped(app).windowed_by(TUMBLING_GRACE).count(store="counts")
    out(counts.suppress(sl.until_window_closes()).filter(lambda w, n: n > 1))


# Cogroup.


def _cogrouped(app: sl.App) -> sl.CogroupedKStream[str, str]:
    left: sl.CogroupedKStream[str, str] = grouped(app, "left").cogroup(
        lambda k, v, x: f"{x}l{text(v)}"
    )
    return left.cogroup(grouped(app, "right"), lambda k, v, x: f"{x}r{text(v)}")


def cogroup_tumbling(app: sl.App) -> None:
    out(_cogrouped(app).windowed_by(TUMBLING_GRACE).aggregate(str, store="aggregated"))


def cogroup_session(app: sl.App) -> None:
    windowed = _cogrouped(app).windowed_by(SESSION_GRACE)
    out(windowed.aggregate(str, lambda k, x, y: f"({x}&{y})", store="aggregated"))
