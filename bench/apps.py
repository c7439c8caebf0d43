"""The applications that are measured, written as a user would write them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import streamlet as sl

Config: TypeAlias = Mapping[str, object]

#: How long a call takes.
CALL_S = 0.01
#: The model that scores numbers.
WEIGHTS = (3.0, -1.0, 4.0, 1.0, -5.0, 9.0, -2.0, 6.0)


@dataclass(frozen=True)
class Record:
    word: str
    n: int
    ts: int
    pad: str


def wordcount(name: str, source: str, output: str, config: Mapping[str, object]) -> sl.App:
    """The number of records per word, every update written."""
    app = sl.App(name, config=config)
    counts = app.stream(source, key=str, value=dict).group_by_key().count(store="counts")
    updates = counts.to_stream().map_values(lambda word, count: {"word": word, "count": count})
    updates.to(output)
    return app


def on_commit(name: str, source: str, output: str, config: Mapping[str, object]) -> sl.App:
    """The number of records per word, the last one of each word written with every commit."""
    app = sl.App(name, config=config)
    words = app.stream(source, key=str, value=dict).group_by_key()
    updates = words.count(store="counts", emit="on_commit").to_stream()
    updates.map_values(lambda word, count: {"word": word, "count": count}).to(output)
    return app


def window(
    name: str,
    source: str,
    output: str,
    config: Mapping[str, object],
    size_ms: int,
    grace_ms: int,
) -> sl.App:
    """The number of records per word and tumbling window, every update written."""
    app = sl.App(name, config=config)
    words = app.stream(source, key=str, value=bytes).group_by_key()
    counts = words.windowed_by(sl.tumbling(size_ms, grace=grace_ms)).count(store="counts")
    counts.to_stream().to(output)
    return app


def regroup(name: str, source: str, output: str, config: Mapping[str, object]) -> sl.App:
    """Word count behind a repartition topic."""
    return _regrouped(name, source, output, config, lambda word, value: word)


def waiting(name: str, source: str, output: str, config: Mapping[str, object]) -> sl.App:
    """The same behind one whose records wait for their writer's commit."""
    return _regrouped(name, source, output, config, sl.non_deterministic(lambda word, value: word))


def _regrouped(
    name: str,
    source: str,
    output: str,
    config: Mapping[str, object],
    chosen: Callable[[str, dict[str, Any]], str],
) -> sl.App:
    app = sl.App(name, config=config)
    words = app.stream(source, key=str, value=dict).group_by(chosen, key=str)
    updates = words.count(store="counts").to_stream()
    updates.map_values(lambda word, count: {"word": word, "count": count}).to(output)
    return app


def by_expressions(name: str, source: str, output: str, config: Mapping[str, object]) -> sl.App:
    """Number of records, their sum and the newest per word, without a function."""
    app = sl.App(name, config=config)
    records = app.stream(source, key=str, value=Record).filter(sl.col("n") >= 0)
    wanted = {"count": sl.count(), "sum": sl.sum_(sl.col("n")), "newest": sl.max_(sl.col("ts"))}
    words = records.group_by(sl.col("word")).aggregate(wanted, store="words")
    words.to_stream().to(output)
    return app


def passthrough(name: str, source: str, output: str, config: Mapping[str, object]) -> sl.App:
    """A copy of the topic, byte for byte."""
    app = sl.App(name, config=config)
    app.stream(source, key=bytes, value=bytes).to(output)
    return app


def joined(
    name: str,
    topics: tuple[str, str],
    output: str,
    config: Mapping[str, object],
    kind: str,
    within_ms: int,
) -> sl.App:
    """A join of two topics of one kind; its results are the numbers of both records."""
    app = sl.App(name, config=config)
    left, right = topics
    types: dict[str, Any] = {"key": str, "value": dict}
    if kind == "stream_stream":
        near = sl.join_windows(within_ms, grace=0)
        stream = app.stream(left, **types)
        stream.join(app.stream(right, **types), pair, within=near, value=dict).to(output)
    elif kind == "stream_table":
        app.stream(left, **types).join(app.table(right, **types), pair, value=dict).to(output)
    elif kind == "table_table":
        rows = app.table(left, **types).join(app.table(right, **types), pair, value=dict)
        rows.to_stream().to(output)
    else:
        rows = app.table(left, **types)
        to = app.table(right, **types)
        found = rows.join(to, pair, foreign_key=lambda row: row["to"], value=dict)
        found.to_stream().to(output)
    return app


def pair(left: dict[str, object], right: dict[str, object]) -> dict[str, object]:
    """The numbers of two records."""
    return {"left": left["n"], "right": right["n"]}


def split(name: str, source: str, output: str, config: Mapping[str, object]) -> sl.App:
    """Records with odd numbers and with even ones, each changed in a branch of their own."""
    app = sl.App(name, config=config)
    records = app.stream(source, key=str, value=dict).split(name="by-")
    branches = records.branch(lambda word, value: value["n"] % 2, name="odd").default_branch(
        name="even"
    )
    odd = branches["by-odd"].map_values(_odd, value=dict)
    odd.merge(branches["by-even"].map_values(_even, value=dict)).to(output)
    return app


def unsplit(name: str, source: str, output: str, config: Mapping[str, object]) -> sl.App:
    """The same without branches."""
    app = sl.App(name, config=config)
    records = app.stream(source, key=str, value=dict)
    changed = records.map_values(
        lambda value: _odd(value) if value["n"] % 2 else _even(value), value=dict
    )
    changed.to(output)
    return app


def calls(
    order: Literal["key", "partition"], name: str, source: str, output: str, config: Config
) -> sl.App:
    """Numbers, each awaited for 10 ms, up to a hundred at a time."""
    app = sl.App(name, config=config)
    numbers = app.stream(source, key=str, value=int)
    numbers.map_values_async(awaited, concurrency=100, timeout="1m", order=order).to(output)
    return app


async def awaited(number: int) -> int:
    """The number, from an endpoint that takes a while."""
    await asyncio.sleep(CALL_S)
    return number


def serial(name: str, source: str, output: str, config: Config) -> sl.App:
    """The same, one call after the other."""
    app = sl.App(name, config=config)
    numbers = app.stream(source, key=str, value=int)
    numbers.map_values(slept, value=int).to(output)
    return app


def slept(number: int) -> int:
    """The number, from a client that blocks."""
    time.sleep(CALL_S)
    return number


def scored(
    how: Literal["record", "list", "numpy"], name: str, source: str, output: str, config: Config
) -> sl.App:
    """A score of each number: by the record, by columns that are lists, or by arrays of numpy."""
    app = sl.App(name, config=config)
    numbers = app.stream(source, key=str, value=int)
    if how == "record":
        numbers.map_values(score, value=float).to(output)
        return app
    function = scores if how == "list" else array_scores
    numbers.map_batches(function, max_records=10_000, value=float).to(output)
    return app


def score(number: int) -> float:
    """The score of a number by a small model, whose steps lose nothing."""
    x, total = float(number % 1_024), 0.0
    for weight in WEIGHTS:
        total = total * 0.5 + weight * x
    return total


def scores(batch: sl.RecordBatch[str, int]) -> list[float]:
    """The scores of a column."""
    return [score(number) for number in batch.values]


def array_scores(batch: sl.RecordBatch[str, int]) -> Any:
    """The same, which numpy computes by the column."""
    x = (batch.to_numpy() % 1_024).astype(float)
    total = x * 0.0
    for weight in WEIGHTS:
        total = total * 0.5 + weight * x
    return total


def _odd(value: dict[str, object]) -> dict[str, object]:
    return {"odd": value["n"]}


def _even(value: dict[str, object]) -> dict[str, object]:
    return {"even": value["n"]}
