"""Joins with versioned tables against a naive model: any records, in any batches, with restarts."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import streamlet as sl
from streamlet.app import App
from streamlet.dsl.joins import with_grace
from streamlet.processing.policy import ErrorPolicy
from streamlet.state import ordered_rows, versioned_store
from tests.shares import share_of
from tests.unit.dsl.joined_tasks import JoinTask, Record

#: Key, value, time, headers of a result.
Result = tuple[str | None, str, int, Any]
HISTORY = 100


def pair(left: str, right: str | None) -> str:
    if left.startswith("!"):
        raise ValueError(left)
    return f"{left}|{right}"


class VersionedJoin(JoinTask):
    """A join of the stream ``left`` with the versioned table ``right``."""

    def __init__(self, kind: str, grace: int | None, folder: Path | None) -> None:
        app = App("a")
        table = app.table(
            "right", key=str, value=str, store=sl.Materialized("t", history=HISTORY)
        ).filter(lambda key, value: not value.startswith("n"))
        left = app.stream("left", key=str, value=str)
        getattr(left, kind)(table, pair, grace=grace, value=str).to("out")
        super().__init__(app, folder, ErrorPolicy.of("skip"))

    def send(self, topic: str, records: Sequence[Record]) -> list[Result]:
        headers = [None if value is None else [("h", value.encode())] for _, value, _ in records]
        return [
            (None if key is None else key.decode(), (value or b"").decode(), time, headers[0][1])
            for output in self.outputs(topic, records, headers)
            for key, value, time, headers in zip(
                output.keys, output.values, output.timestamps, output.headers or [], strict=True
            )
        ]


@attrs.define
class Model:
    """The rules of Kafka Streams, one record after another, over plain lists."""

    left_join: bool
    grace: int | None
    versions: dict[str, dict[int, str | None]] = attrs.field(factory=dict)
    table_time: int = -1
    stream_time: int = -1
    waits: list[tuple[int, str, int, str]] = attrs.field(factory=list)
    count: int = 0

    def put(self, key: str | None, value: str | None, time: int) -> None:
        if key is not None:
            self.table_time = max(self.table_time, time)
            if time >= self.table_time - HISTORY:
                self.versions.setdefault(key, {})[time] = value

    def add(self, key: str | None, value: str | None, time: int) -> list[Result]:
        if value is None or (key is None and not self.left_join):
            return []  # one that is left out moves no time
        if self.grace is None or key is None:
            return self.joined(key, value, time)
        self.stream_time = max(self.stream_time, time)
        limit, out = self.stream_time - self.grace, list[Result]()
        if time < limit:  # it does not wait, and sends nothing else
            return self.joined(key, value, time)
        self.count += 1
        self.waits.append((time, key, self.count, value))
        while (first := min(self.waits, default=None)) is not None and first[0] <= limit:
            self.waits.remove(first)
            out += self.joined(first[1], first[3], first[0])
        return out

    def joined(self, key: str | None, value: str, time: int) -> list[Result]:
        row = self.row(key, time)
        if (row is None and not self.left_join) or value.startswith("!"):
            return []  # one that fails is left out, and the one that sends it goes on
        return [(key, f"{value}|{row}", time, value.encode())]

    def row(self, key: str | None, time: int) -> str | None:
        versions = self.versions.get(key or "", {})
        began = max((one for one in versions if one <= time), default=None)
        expired = time < self.table_time - HISTORY and began != max(versions, default=None)
        value = None if began is None or expired else versions[began]
        return None if value is None or value.startswith("n") else value


#: The joiner fails amid records of one key and time that wait, and one of these comes behind it.
FAILS_AMID = [("a", value, 0) for value in ("x", "x", "!", None, "x", "x")]

RECORDS = st.tuples(
    st.sampled_from(["a", "a", "b", "ab", None]),
    st.sampled_from(["x", "y", "x", "!", "n", None]),
    st.sampled_from([0, 0, 0, 1, 2, 5, 20, 39, 40, 41, 130, -1, -3, -20, -40, -41, -99, -101]),
)
BATCHES = st.tuples(
    st.sampled_from(["left", "left", "right"]),
    st.lists(RECORDS, min_size=1, max_size=12),
    st.sampled_from(["", "", "commit", "restart"]),
)


@pytest.mark.parametrize("kind", ["join", "left_join"])
@settings(max_examples=share_of(40), deadline=None)
@example(3, [("left", [*FAILS_AMID, ("a", "x", 5), ("a", "x", 0)], "")], 5, 2, False)
@given(
    st.sampled_from([None, 0, 3, 40]),
    st.lists(BATCHES, max_size=8),
    st.sampled_from([1, 2, 5, 1_000]),
    st.sampled_from([2, 4_096]),
    st.booleans(),
)
def test_a_join_does_what_kafka_streams_does(
    kind: str, grace: int | None, history: list[Any], part: int, front: int, bounded: bool
) -> None:
    """For batches, parts and orders in memory of any length, and where a joiner fails."""
    model, now, number = Model(kind == "left_join", grace), 0, 0
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(with_grace, "PART", part),
        patch.object(ordered_rows, "FRONT", front),
        patch.object(versioned_store, "ROW_VERSIONS", 2),
    ):
        restarts = any(then == "restart" for _, _, then in history)
        task = VersionedJoin(kind, grace, Path(folder) if restarts else None)
        if bounded:
            for store in task.state.stores.values():
                store.commits.check_entries(10_000)
        for topic, steps, then in history:
            batch: list[Record] = []
            for key, value, step in steps:
                time, number = max(0, now + step), number + 1
                now = max(now, time)
                batch.append((key, None if value is None else f"{value}{number}", time))
            wanted: list[Result] = []
            for record in batch:
                if topic == "right":
                    model.put(*record)
                else:
                    wanted += model.add(*record)
            assert task.send(topic, batch) == wanted
            if then:
                task.commit()
            if then == "restart":
                task.restart()
        task.state.close()
