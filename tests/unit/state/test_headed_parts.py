"""Windows and versions with headers, on their way through commits, files and changelogs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest

from streamlet.errors import SerdeError, StateError
from streamlet.kafka.ports import Headers
from streamlet.serdes import Windowed, serde
from streamlet.state.backing import Columns
from streamlet.state.bucket_store import bucket_rows
from streamlet.state.headed_parts import HeadedPart, headers_of_part, with_block
from streamlet.state.row_headers import row_headers
from streamlet.state.sizes import deep_size
from streamlet.state.task_state import TaskState
from streamlet.state.version_rows import version_rows
from streamlet.state.window_rows import row_keys
from streamlet.types import StateNumber
from tests.unit.state.support import Layout, Spec, changelog, versions

ID: Headers = (("id", b"7"), ("id", None), ("\u202e", b"\xff\0"))
SESSIONS = Spec("s", value=bucket_rows(serde(str)), window=Layout(size_ms=None, bucket_ms=40))


VERSIONS = Spec("s", key=row_keys(serde(str)), value=version_rows(serde(str)), versions=versions())


class Opened:
    """The state of a task with one store, whose windows or versions are noted."""

    def __init__(self, folder: Path | None, spec: Spec, headers: bool = True) -> None:
        spec = attrs.evolve(spec, headers=headers)
        self.sessions = spec.window is not None
        self.state = TaskState(folder, [spec], 1 << 20, {"s": changelog("s")})
        self.notes = row_headers(self.state.stores, [spec], None)
        self.store: Any = self.state.stores["s"]

    def put(self, at: int, value: str | None, headers: Headers | None) -> None:
        """Put a session or a version of a time for a record with headers; None: without one."""
        if headers is not None:
            self.notes["s"].begin(headers)
        key = Windowed("a", at, at) if self.sessions else "a"
        self.store.put(key, value, at)
        if headers is not None:
            self.notes["s"].end()

    def commit(self, number: int) -> Columns:
        drained = self.state.drain()
        self.state.write(drained, StateNumber(1, number), {changelog("s"): number})
        return drained.columns["s"]

    def of(self, at: int) -> Headers:
        """The headers of a session or a version of a time."""
        if not self.sessions:
            found: Headers = self.store.headers("a", at)
            return found
        items = self.store.items(*self.store.ckeys(["a"]), at, at)
        found = self.store.headers(items[0]) if items else ()
        return found


@pytest.mark.parametrize("spec", [SESSIONS, VERSIONS])
def test_headers_go_where_their_windows_and_versions_go(tmp_path: Path, spec: Spec) -> None:
    """To files and changelogs, with a neighbour that changes, into a store that keeps none."""
    opened = Opened(tmp_path, spec)
    opened.put(5, "x", ID)
    opened.put(6, "y", None)
    assert [opened.of(at) for at in (5, 6, 4)] == [ID, (), ()]
    opened.commit(1)
    opened.put(7, "z", ID[:1])
    opened.state.discard()
    opened.put(8, "z", ID[:1])
    logged = opened.commit(2)
    opened.state.close()
    copied = Opened(None, spec)
    loader = copied.state.loader("s")
    loader.add(logged.keys, logged.values)
    loader.flush(3, 1)
    for one in (Opened(tmp_path, spec), copied):
        assert [one.of(at) for at in (5, 6, 8)] == [ID, (), ID[:1]]
        one.put(5, "again", ())
        assert (one.of(5), one.of(8)) == ((), ID[:1])
        one.state.close()
    plain = Opened(tmp_path, spec, headers=False)
    assert plain.notes == {}
    plain.put(6, "y", None)
    plain.commit(3)
    plain.state.close()
    opened = Opened(tmp_path, spec)
    assert [opened.of(at) for at in (5, 6, 8)] == [ID, (), ID[:1]]
    opened.state.close()


@pytest.mark.parametrize("spec", [SESSIONS, VERSIONS])
def test_a_row_that_is_too_large_with_headers_has_none(spec: Spec) -> None:
    opened = Opened(None, spec)
    opened.put(5, "x", ID)
    opened.state.check_entries(300, {})
    opened.put(6, "x", [("x", b"y" * 300)])
    assert (opened.of(5), opened.of(6)) == ((), ())
    opened.put(7, "x", ID)
    assert opened.of(7) == ID
    with pytest.raises(SerdeError, match="too many for its changelog"):
        opened.put(8, "x" * 300, ID)


def test_damaged_headers_are_an_error_of_their_store() -> None:
    rows = bucket_rows(serde(str))
    (item,) = rows.decode(rows.encode([with_block((7, 5, "a"), b"\xc1")]))  # type: ignore[list-item]
    assert item == (7, 5, "a")
    opened = Opened(None, SESSIONS)
    with pytest.raises(StateError, match="store s has a row"):
        opened.store.headers(item)
    with pytest.raises(SerdeError, match="cut off"):
        rows.decode(rows.encode([item])[:-1])


def test_headers_count_for_the_bound_on_memory() -> None:
    plain = (7, 5, "a")
    assert deep_size([with_block(plain, b"x" * 9_000)]) > deep_size([plain]) + 9_000
    assert (headers_of_part(plain), isinstance(plain, HeadedPart)) == ((), False)
