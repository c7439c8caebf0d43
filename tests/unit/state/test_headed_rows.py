"""Rows that bear the headers of records, on their way through commits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamlet.errors import StateError
from streamlet.kafka.ports import Headers
from streamlet.serdes import serde
from streamlet.state.backing import Columns
from streamlet.state.headed_rows import MOST_BYTES, bare, headed, headers_of, of_source_rows
from streamlet.state.row_headers import row_headers
from streamlet.state.rows import rows_of, time_of_row
from streamlet.state.source_times import SourceTimes
from streamlet.state.task_state import TaskState
from streamlet.types import StateNumber
from tests.unit.state.support import Spec, changelog

ID: Headers = (("id", b"7"), ("id", None), ("\u202e", b"\xff\0"))


class Opened:
    """The state of a task with one store, whose rows are noted."""

    def __init__(self, folder: Path | None, headers: bool = True) -> None:
        spec = Spec("s", headers=headers)
        self.state = TaskState(folder, [spec], 1 << 20, {"s": changelog("s")})
        self.notes = row_headers(self.state.stores, [spec], None)
        self.store: Any = self.state.stores["s"]

    def put(self, key: str, value: int | None, headers: Headers | None) -> None:
        """Put a row for a record with headers; None: without a record."""
        if headers is not None:
            self.notes["s"].begin(headers)
        self.store.put(key, value, 5)
        if headers is not None:
            self.notes["s"].end()

    def commit(self, number: int) -> Columns | None:
        drained = self.state.drain()
        self.state.write(drained, StateNumber(1, number), {changelog("s"): number})
        return drained.columns.get("s")

    def of(self, key: str) -> Headers:
        return self.store.commits.headed.of_row(self.store.commits, key)


def test_a_row_with_headers_is_the_row_without_them() -> None:
    for row in rows_of([b"value", b"", b"\xff" * 9], [0, -1, (1 << 62) - 1]):
        assert row is not None
        made = headed(row, ID)
        assert (bare(made), headers_of(made)) == (row, ID)
        assert (bare(row), headers_of(row), headed(row, ())) == (row, (), row)
    with pytest.raises(ValueError, match="truncated"):
        headers_of(made[:14])
    assert bare(b"\xff") == b"\x7f"


def test_headers_are_those_of_the_last_change_at_each_stage_of_a_commit() -> None:
    opened = Opened(None)
    opened.put("a", 1, (*ID, ("traceparent", b"x"), ("streamlet.origin", b"y")))
    opened.put("b", 1, ID)
    opened.put("b", 2, None)  # by a timer
    assert (opened.of("a"), opened.of("b"), opened.of("c")) == (ID, (), ())
    opened.state.drain()
    opened.put("c", 1, ID)
    assert (opened.of("a"), opened.of("b"), opened.of("c")) == (ID, (), ID)
    opened.store.commits.undo_drain()
    assert (opened.of("a"), opened.of("b"), opened.of("c")) == (ID, (), ID)
    opened.state._outstanding = None
    opened.commit(1)
    assert (opened.of("a"), opened.of("b"), opened.of("c")) == (ID, (), ID)
    opened.put("a", 2, ())
    opened.put("c", None, ID)
    assert (opened.of("a"), opened.of("c")) == ((), ID)
    opened.state.discard()
    assert (opened.of("a"), opened.store.get("a")) == (ID, 1)
    assert list(opened.store.range()) == [("a", 1), ("b", 2), ("c", 1)]


def test_what_is_written_again_has_the_headers_that_it_had(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    opened.put("a", 1, ID)
    opened.put("b", 1, ())
    first = opened.commit(1)
    opened.state.write_again("s", [b"a", b"b", b"gone"])
    opened.put("c", 1, ID)
    again = opened.commit(2)
    assert first is not None
    assert again is not None
    written = dict(zip(again.keys, again.values, strict=True))
    assert {b"a": written[b"a"], b"b": written[b"b"]} == dict(
        zip(first.keys, first.values, strict=True)
    )
    assert (written[b"gone"], headers_of(written[b"c"])) == (None, ID)


def test_a_store_begins_and_ceases_to_keep_headers(tmp_path: Path) -> None:
    """By its files, and by a changelog to which others wrote some."""
    opened = Opened(tmp_path, headers=False)
    opened.put("old", 1, None)
    opened.commit(1)
    opened.state.close()
    opened = Opened(tmp_path)
    opened.put("a", 2, ID)
    logged = opened.commit(2)
    opened.state.close()
    opened = Opened(tmp_path)
    assert (opened.of("a"), opened.of("old"), opened.store.timestamp("a")) == (ID, (), 5)
    assert dict(opened.store.range()) == {"old": 1, "a": 2}
    opened.state.close()
    assert logged is not None
    for folder in (tmp_path, tmp_path / "other"):
        opened = Opened(folder, headers=False)
        loader = opened.state.loader("s")
        loader.add(logged.keys, logged.values)
        loader.flush(3, 1)
        rows = dict(opened.state.engine("s").backing("s").scan(None, None))
        assert {time_of_row(row) for row in rows.values()} == {5}
        assert opened.store.get("a") == 2
        assert opened.store.commits.latest == 5
        opened.state.close()
    opened = Opened(tmp_path)
    assert (opened.of("a"), opened.state._meta().headed) == ((), {"s"})
    opened.state.close()


def test_too_many_bytes_of_headers_are_not_kept(caplog: pytest.LogCaptureFixture) -> None:
    opened = Opened(None)
    notes, most = opened.notes["s"], MOST_BYTES - 20
    assert notes.users_of([("x", b"y" * most)]) == (("x", b"y" * most),)
    assert notes.users_of([("x", b"y" * MOST_BYTES), ("id", b"7")]) == ()
    assert notes.users_of([("x", None)] * MOST_BYTES) == ()
    assert [one.getMessage()[:8] for one in caplog.records] == ["store s:"]
    opened.state.check_entries(300, {})
    opened.put("a", 1, [("x", b"y" * 300)])
    opened.put("b", 1, ID)
    opened.commit(1)
    assert (opened.of("a"), opened.of("b")) == ((), ID)


def test_headers_count_as_memory_that_only_a_commit_frees() -> None:
    opened = Opened(None)
    for number in range(100):
        opened.put(str(number), 1, [("x", bytes(4_000))])
    assert opened.state.dirty_bytes() > 400_000
    drained = opened.state.drain()
    assert opened.state.dirty_bytes() > 400_000
    opened.state.write(drained, StateNumber(1, 1), {changelog("s"): 1})
    assert opened.state.dirty_bytes() == 0


def test_rows_of_a_source_topic_bear_the_headers_of_its_records() -> None:
    times = SourceTimes(None)
    columns = [b"a", b"b", b"c"], [b"\0" * 8, b"?", b"\1" * 8], [5, 6, 7]
    heads: list[Headers | None] = [ID, ID, None]
    keys, rows = times.taken(serde(str), serde(int), *columns, heads)
    assert (keys, list(map(headers_of, rows))) == ([b"a", b"c"], [ID, ()])
    assert of_source_rows([None], [ID]) == [None]


def test_damaged_headers_are_an_error_of_their_store() -> None:
    opened = Opened(None)
    row = headed(bytes(16), ID)
    loader = opened.state.loader("s")
    loader.add([b"a"], [row[:12] + b"\xc1" + row[13:]])
    loader.flush(1, 1)
    with pytest.raises(StateError, match="store s has a row"):
        opened.of("a")
    assert opened.store.get("a") == 0
