"""The recorded topologies without windows: the function ``foo_bar`` is the topology ``foo-bar``."""

from __future__ import annotations

import streamlet as sl
from tests.oracle.helpers import (
    add,
    first,
    grouped,
    longs,
    out,
    pair,
    s,
    starts,
    stream,
    sub,
    table,
    tail,
)

# Stateless.


def filter_(app: sl.App) -> None:
    out(stream(app).filter(lambda k, v: starts(v, "a")))


def filter_not(app: sl.App) -> None:
    out(stream(app).filter_not(lambda k, v: starts(v, "a")))


def map_(app: sl.App) -> None:
    out(stream(app).map(lambda k, v: (first(v), pair(k, v)), key=str, value=str))


def map_values(app: sl.App) -> None:
    def mapped(v: str | None) -> str | None:
        return "none" if v is None else None if v.startswith("b") else f"{v}!"

    out(stream(app).map_values(mapped))


def map_values_with_key(app: sl.App) -> None:
    out(stream(app).map_values(lambda k, v: pair(k, v), value=str))


def flat_map(app: sl.App) -> None:
    def two(k: str | None, v: str | None) -> list[tuple[str | None, str]]:
        return [] if v is None else [(first(v), v), (v, s(k))]

    out(stream(app).flat_map(two, key=str, value=str))


def flat_map_values(app: sl.App) -> None:
    out(stream(app).flat_map_values(lambda v: [] if v is None else v.split("."), value=str))


def select_key(app: sl.App) -> None:
    out(stream(app).select_key(lambda k, v: first(v), key=str))


def merge(app: sl.App) -> None:
    both = stream(app, "left").merge(stream(app, "right"))
    out(both.map_values(lambda v: f"{s(v)}!"))


def peek(app: sl.App) -> None:
    seen: list[None] = []
    peeked = stream(app).peek(lambda k, v: seen.append(None))
    out(peeked.map_values(lambda v: f"{s(v)}#{len(seen)}"))


def repartition(app: sl.App) -> None:
    sent = stream(app).select_key(lambda k, v: first(v), key=str).repartition(name="by-letter")
    out(sent.map_values(lambda v: f"{s(v)}!"))


def split_with_default(app: sl.App) -> None:
    """The first branch that fits wins; the rest goes to the default branch."""
    branches = (
        stream(app)
        .split(name="by-")
        .branch(lambda k, v: starts(v, "a"), chain=lambda b: out(b, "out-a"))
        .branch(
            lambda k, v: v is not None and k == "a",
            name="key-a",
            chain=lambda b: b.map_values(lambda v: f"{v}!"),
        )
        .branch(lambda k, v: starts(v, "a") or starts(v, "b"), chain=lambda b: out(b, "out-ab"))
        .default_branch(chain=lambda b: out(b, "out-rest"))
    )
    out(branches["by-key-a"], "out-key-a")


def split_no_default(app: sl.App) -> None:
    """A record that fits no branch is dropped."""
    branches = (
        stream(app)
        .split(name="by-")
        .branch(lambda k, v: starts(v, "a"), name="a")
        .branch(lambda k, v: k is None, name="null-key")
        .no_default_branch()
    )
    out(branches["by-a"], "out-a")
    out(branches["by-null-key"], "out-null-key")


def to_table(app: sl.App) -> None:
    out(stream(app).to_table(store="table"))


def to_topic_by_record(app: sl.App) -> None:
    """The recorded driver took names that Kafka does not (``out-ä``), and nobody read them."""
    known = stream(app).filter(lambda k, v: s(first(v)).isascii())
    known.to(lambda k, v: f"out-{s(first(v))}")


def process_values_headers(app: sl.App) -> None:
    """Reads the last header ``h``, puts it into the value, adds ``seen`` and replaces ``h``."""

    @sl.with_context
    def with_header(v: str | None, context: sl.RecordContext) -> str:
        header = context.header("h")
        was = "-" if header is None else header.decode()
        context.set_header("h", b"new")
        context.add_header("seen", was.encode())
        return pair(v, was)

    out(stream(app).map_values(with_header, value=str))


def headers_pass_through(app: sl.App) -> None:
    mapped = stream(app).map(lambda k, v: (first(v), s(k)), key=str, value=str)
    out(mapped.flat_map_values(lambda v: [v, v + v], value=str), "out-stream")
    counts = mapped.group_by_key().count(store="counts")
    out(counts.to_stream().map_values(s, value=str), "out-count")


# Aggregations.


def group_by_key_count(app: sl.App) -> None:
    out(grouped(app).count(store="counts"))


def group_by_key_reduce(app: sl.App) -> None:
    out(grouped(app).reduce(lambda x, v: pair(tail(x), v), store="reduced"))


def group_by_key_aggregate(app: sl.App) -> None:
    out(grouped(app).aggregate(str, lambda k, v, x: add(x, v), store="aggregated"))


def group_by_key_reduce_long(app: sl.App) -> None:
    out(longs(app).group_by_key().reduce(lambda x, v: x + v, store="sums"))


def group_by_count(app: sl.App) -> None:
    out(stream(app).group_by(lambda k, v: first(v), key=str).count(store="counts"))


def group_by_null_key(app: sl.App) -> None:
    """The new key is null for values that start with c."""
    letters = stream(app).group_by(lambda k, v: None if starts(v, "c") else s(first(v)), key=str)
    out(letters.count(store="counts"))


def aggregate_to_null(app: sl.App) -> None:
    """An aggregate that becomes null leaves the store; the next record starts anew."""

    def aggregated(k: str, v: str, x: str) -> str | None:
        return None if v.startswith("c") else add(x, v)

    out(grouped(app).aggregate(lambda: "new", aggregated, store="aggregated"))


def reduce_to_null(app: sl.App) -> None:
    def reduced(x: str, v: str) -> str | None:
        return None if v.startswith("c") else pair(first(x), v)

    out(grouped(app).reduce(reduced, store="reduced"))


def cogroup(app: sl.App) -> None:
    left: sl.CogroupedKStream[str, str] = grouped(app, "left").cogroup(lambda k, v, x: f"{x}l{v}")
    both = left.cogroup(grouped(app, "right"), lambda k, v, x: f"{x}r{v}")
    out(both.aggregate(str, store="aggregated"))


# Tables.


def table_to_stream(app: sl.App) -> None:
    out(table(app))


def table_to_stream_key_mapper(app: sl.App) -> None:
    out(table(app).to_stream(lambda k, v: pair(k, first(v)), key=str))


def table_filter(app: sl.App) -> None:
    out(table(app).filter(lambda k, v: starts(v, "a")))


def table_filter_not(app: sl.App) -> None:
    out(table(app).filter_not(lambda k, v: starts(v, "a")))


def table_filter_no_store(app: sl.App) -> None:
    """The source table has no store: the filter does not know the old values."""
    out(app.table("in", key=str, value=str).filter(lambda k, v: starts(v, "a")))


def table_filter_materialized(app: sl.App) -> None:
    out(table(app).filter(lambda k, v: starts(v, "a"), store="filtered"))


def table_map_values(app: sl.App) -> None:
    out(table(app).map_values(lambda v: None if v.startswith("b") else f"{v}!", value=str))


def table_map_values_materialized(app: sl.App) -> None:
    out(table(app).map_values(pair, value=str, store="mapped"))


def table_transform_values(app: sl.App) -> None:
    """The function is called for tombstones too and may turn them into values."""

    def transformed(k: str, v: str | None) -> str | None:
        return f"gone {k}" if v is None else None if v.startswith("b") else f"{v}!"

    out(table(app).transform_values(transformed, store="transformed"))


def _added(table: sl.KGroupedTable[str, str]) -> sl.KTable[str, str]:
    """The text shows the order of adder and subtractor."""
    return table.aggregate(
        lambda: "",
        lambda k, v, text: add(text, v),
        lambda k, v, text: sub(text, v),
        value=str,
        store="aggregated",
    )


def table_group_by_count(app: sl.App) -> None:
    by_letter = table(app).group_by(lambda k, v: (first(v), v), key=str, value=str)
    out(by_letter.count(store="counts"))


def table_group_by_aggregate(app: sl.App) -> None:
    out(_added(table(app).group_by(lambda k, v: (first(v), pair(k, v)), key=str, value=str)))


def table_group_by_reduce(app: sl.App) -> None:
    by_letter = table(app).group_by(lambda k, v: (first(v), v), key=str, value=str)
    out(by_letter.reduce(add, sub, store="reduced"))


def table_group_by_null_key(app: sl.App) -> None:
    def some(k: str, v: str) -> tuple[str | None, str]:
        return None if starts(v, "c") else "all", v

    out(_added(table(app).group_by(some, key=str, value=str)))


def table_filter_group_by(app: sl.App) -> None:
    kept = table(app).filter(lambda k, v: not starts(v, "c")).map_values(lambda v: f"{v}!")
    out(_added(kept.group_by(lambda k, v: (first(v), v), key=str, value=str)))


# Joins.


def table_table_inner(app: sl.App) -> None:
    out(table(app, "left").join(table(app, "right"), pair, value=str, store="joined"))


def table_table_left(app: sl.App) -> None:
    out(table(app, "left").left_join(table(app, "right"), pair, value=str, store="joined"))


def table_table_outer(app: sl.App) -> None:
    out(table(app, "left").outer_join(table(app, "right"), pair, value=str, store="joined"))


def table_table_outer_not_materialized(app: sl.App) -> None:
    out(table(app, "left").outer_join(table(app, "right"), pair, value=str))


def table_table_self(app: sl.App) -> None:
    """Both sides of one join come from the same topic."""
    whole = table(app)
    left = whole.filter(lambda k, v: not starts(v, "c"))
    out(left.left_join(whole.map_values(lambda v: f"{v}!"), pair, value=str))


def chain_table_join_group_count(app: sl.App) -> None:
    joined = table(app, "left").join(table(app, "right"), pair, value=str)
    by_letter = joined.group_by(lambda k, v: (first(v), v), key=str, value=str)
    out(by_letter.count(store="counts"))


def chain_counts_joined(app: sl.App) -> None:
    left = grouped(app, "left").count(store="left-counts")
    by_letter = stream(app, "right").group_by(lambda k, v: first(v), key=str)
    right = by_letter.count(store="right-counts")
    out(left.outer_join(right, pair, value=str, store="joined"))


def aggregate_timestamps(app: sl.App) -> None:
    texts = grouped(app, "left").aggregate(
        lambda: "", lambda k, v, text: add(text, v), value=str, store="aggregated"
    )
    lengths = texts.map_values(lambda v: str(len(v)), value=str)
    out(texts, "out-aggregate")
    out(lengths, "out-mapped")
    out(lengths.left_join(table(app, "right"), pair, value=str), "out-joined")


def stream_table_inner(app: sl.App) -> None:
    out(stream(app, "left").join(table(app, "right"), lambda v, row: pair(v, row), value=str))


def stream_table_left(app: sl.App) -> None:
    right = table(app, "right")
    out(stream(app, "left").left_join(right, lambda v, row: pair(v, row), value=str))


def stream_table_rekeyed(app: sl.App) -> None:
    """The stream gets a new key first: a repartition topic before the join."""
    left = stream(app, "left").select_key(lambda k, v: first(v), key=str)
    right = table(app, "right")
    out(left.left_join(right, lambda k, v, row: f"{s(k)}:{pair(v, row)}", value=str))


def _foreign_key(v: str) -> str | None:
    return None if v.startswith("|") else v[0]


def foreign_key_inner(app: sl.App) -> None:
    left, right = table(app, "left"), table(app, "right")
    out(left.join(right, pair, foreign_key=_foreign_key, value=str, store="joined"))


def foreign_key_left(app: sl.App) -> None:
    left, right = table(app, "left"), table(app, "right")
    out(left.left_join(right, pair, foreign_key=_foreign_key, value=str, store="joined"))


# Chains.


def chain_two_repartitions(app: sl.App) -> None:
    one = stream(app).select_key(lambda k, v: first(v), key=str).repartition(name="one")
    mapped = one.map(lambda k, v: (f"n{len(s(v))}", pair(k, v)), key=str, value=str)
    two = mapped.repartition(name="two").group_by_key()
    out(two.aggregate(str, lambda k, v, x: f"{v[0]}{x}", store="aggregated"))
