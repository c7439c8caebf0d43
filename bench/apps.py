"""The applications that are measured, written as a user would write them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import streamlet as sl


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
    app = sl.App(name, config=config)
    words = app.stream(source, key=str, value=dict).group_by(lambda word, value: word, key=str)
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
