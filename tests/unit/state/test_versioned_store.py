"""Versioned stores: what a key's value was at a time, over commits, restarts and changelogs."""

from __future__ import annotations

import tempfile
from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamlet.errors import SerdeError, StateError
from streamlet.serdes import serde
from streamlet.state import versioned_store
from streamlet.state.backing import Columns
from streamlet.state.task_state import TaskState
from streamlet.state.version_rows import ROW_VERSIONS, VersionedRecord, version_rows
from streamlet.state.versioned_store import NEWEST, NOT_PUT, VersionedStore
from streamlet.state.window_rows import FIRST_KEY, row_keys
from streamlet.types import StateNumber
from tests.shares import share_of
from tests.unit.state.support import Spec, changelog, versions

HISTORY = 100


def spec_of(key: type) -> Spec:
    layout = versions(key, HISTORY)
    return Spec("s", key=row_keys(layout.key), value=version_rows(serde(str)), versions=layout)


class Stored:
    """A versioned store in a state, with a changelog that keeps the last row of each key."""

    def __init__(self, folder: Path | None, key: type = str) -> None:
        self.spec = spec_of(key)
        self.folder = folder
        self.log: dict[bytes, bytes | None] = {}
        self.number = self.written = 0
        self.state = self._opened(folder)

    def _opened(self, folder: Path | None) -> TaskState:
        return TaskState(folder, [self.spec], 1, {"s": changelog("s")})

    @property
    def store(self) -> VersionedStore:
        store = self.state.stores["s"]
        assert isinstance(store, VersionedStore)
        return store

    def commit(self) -> None:
        drained = self.state.drain()
        self.number += 1
        self.written += len(drained)
        self.state.write(drained, StateNumber(1, self.number), {changelog("s"): self.written})
        for part in drained.columns.values():
            self.log.update(zip(part.keys, part.values, strict=True))
        self.store.commits.check_invariants()

    def restart(self) -> None:
        """What is on disk is there again; what was only in memory comes from the changelog."""
        self.state.close()
        self.state = self._opened(self.folder)
        if self.folder is None:
            self.restore()

    def restore(self) -> None:
        """A new host with the changelog, which was compacted."""
        self.state.wipe()
        rows = {key: row for key, row in self.log.items() if row is not None}
        columns = Columns("s", list(rows), list(rows.values()))
        self.state.load(columns, changelog("s"), self.written, 1)
        self.state.restored(StateNumber(1, self.number))
        self.store.commits.check_invariants()

    @property
    def rows(self) -> int:
        """Rows that the changelog keeps."""
        return sum(row is not None for row in self.log.values())


@attrs.define
class Model:
    """Every version of every key, and the latest time of all."""

    versions: dict[str, dict[int, str | None]] = attrs.field(factory=dict)
    observed: int = -1

    def put(self, key: str, value: str | None, time: int) -> int:
        self.observed = max(self.observed, time)
        if time < self.observed - HISTORY:
            return NOT_PUT
        versions = self.versions.setdefault(key, {})
        versions[time] = value
        return min((begin for begin in versions if begin > time), default=NEWEST)

    def get(self, key: str, as_of: int | None = None) -> VersionedRecord | None:
        versions = self.versions.get(key, {})
        if not versions:
            return None
        if as_of is not None and as_of < self.observed - HISTORY and as_of < max(versions):
            return None
        found = max((begin for begin in versions if as_of is None or begin <= as_of), default=None)
        if found is None or (value := versions[found]) is None:
            return None
        ends = min((begin for begin in versions if begin > found), default=None)
        return VersionedRecord(value, found, ends)


KEYS = {str: ["a", "b", "ab"], int: ["1", "-1", "300"], float: ["0.5", "1.0", "-2.5"]}
PUTS = st.tuples(
    st.just("put"),
    st.integers(0, 2),
    st.sampled_from([None, "x", "y"]),
    st.sampled_from([0, 0, 1, 1, 2, 5, 20, 60, 130, 400, -1, -3, -20, -99, -100, -101, -102]),
)
STEPS = st.one_of(
    PUTS, PUTS, PUTS, PUTS, st.sampled_from([("commit",), ("restart",), ("restore",), ("discard",)])
)


@pytest.mark.parametrize("medium", ["memory", "disk"])
@pytest.mark.parametrize("kind", [str, int, float])
def test_a_versioned_store_has_every_version_of_its_history(kind: type, medium: str) -> None:
    """In any order of puts, over commits, restarts, restores, and puts that are taken back."""

    @settings(max_examples=share_of(60 if medium == "memory" else 12), deadline=None)
    @given(st.lists(STEPS, max_size=60), st.integers(2, ROW_VERSIONS), st.integers(1, 3))
    def check(steps: list[tuple[object, ...]], row: int, expire: int) -> None:
        with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
            patch.setattr(versioned_store, "ROW_VERSIONS", row)
            patch.setattr(versioned_store, "EXPIRE_ROWS", expire)
            stored = Stored(None if medium == "memory" else Path(folder), kind)
            play(stored, kind, steps)
            stored.state.close()

    check()


def play(stored: Stored, kind: type, steps: list[tuple[object, ...]]) -> None:
    keys = [kind(text) for text in KEYS[kind]]
    model, committed = Model(), Model()
    for step in steps:
        if step[0] == "put":
            key, value = keys[step[1]], step[2]  # type: ignore[call-overload]
            time = max(0, model.observed + step[3])  # type: ignore[operator]
            (head,) = stored.store.ckeys([key])
            put = stored.store.put_version(head, value, time)
            assert put == model.put(str(key), value, time)  # type: ignore[arg-type]
        elif step[0] == "commit":
            stored.commit()
            committed = Model({k: dict(vs) for k, vs in model.versions.items()}, model.observed)
        else:
            {"restart": stored.restart, "restore": stored.restore}.get(
                str(step[0]), stored.state.discard
            )()
            model = Model({k: dict(vs) for k, vs in committed.versions.items()}, committed.observed)
        if step[0] != "put":
            compare(stored, model, keys)
    compare(stored, model, keys)


def compare(stored: Stored, model: Model, keys: list[object]) -> None:
    store, now = stored.store, max(0, model.observed)
    store.commits.check_invariants()
    asked = {now + step for step in (-102, -101, -100, -99, -60, -20, -5, -2, -1, 0, 1)}
    for key in keys:
        known = model.versions.get(str(key), {})
        assert store.get(key) == model.get(str(key))
        times = sorted(asked | known.keys() | {begin - 1 for begin in known})
        assert {t: store.get(key, t) for t in times} == {t: model.get(str(key), t) for t in times}
    newest = {key: found.value for key in keys if (found := model.get(str(key))) is not None}
    assert dict(store.range()) == newest


def test_the_changelog_is_flat_over_ten_histories() -> None:
    """Keys that change often, that change now and then, and that are deleted."""
    stored, sizes, cached = Stored(None), [], []
    for time in range(0, 11 * HISTORY, 5):
        stored.store.put("busy", f"{time}", time)
        stored.store.put(f"slow-{time // 5 % 4}", f"{time}", time)
        stored.store.put(f"new-{time}", "there", time)
        stored.store.put(f"new-{time}", None, time + 1)
        stored.commit()
        if time % HISTORY == 0:
            sizes.append(stored.rows)
            cached.append(len(stored.store.rows.cache))
    assert max(sizes[2:]) <= 1.3 * min(sizes[2:])
    assert sizes[2] < 4 * HISTORY
    assert max(cached[2:]) <= 2 * min(cached[2:])


def test_a_version_stays_until_its_end_is_out_of_the_history() -> None:
    for later, there in ((9, VersionedRecord("x", 1, 10)), (10, None)):
        stored = Stored(None)
        stored.store.put("a", "x", 1)
        stored.store.put("a", None, 10)
        stored.store.put("b", "x", later + HISTORY)
        stored.commit()
        assert stored.store.get("a", later) == there
        assert stored.rows == (2 if there is None else 4)  # b and the progress; a, and what it was


def test_what_has_expired_is_deleted_by_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versioned_store, "EXPIRE_ROWS", 10)
    stored = Stored(None)
    for number in range(35):
        stored.store.put(f"k{number}", "x", 1)
        stored.store.put(f"k{number}", None, 2)
    stored.commit()
    rows = stored.rows
    stored.store.put("later", "x", 1_000)
    for done in (10, 20, 30, 35):
        stored.commit()
        assert stored.rows == rows - 2 * done + 1  # a head and a chunk each
        stored.store.put("later", "y", 1_000)


def test_a_row_has_few_versions_however_often_a_key_changes() -> None:
    """So what a commit writes does not grow with what is there."""
    stored = Stored(None)
    for time in range(HISTORY):
        stored.store.put("a", f"{time}", time)
    stored.commit()
    stored.store.put("a", "x", HISTORY)
    drained = stored.state.drain()
    assert sum(len(part.keys) for part in drained.columns.values()) <= 3  # with the progress
    sizes = [len(row[1]) for _, row, _ in stored.store.commits.scan(FIRST_KEY, None)]
    assert max(sizes) <= ROW_VERSIONS


def test_an_entry_that_its_changelog_would_not_take_is_refused() -> None:
    stored = Stored(None)
    stored.state.check_entries(1_000, {})
    stored.store.put("a", "x", 1)
    with pytest.raises(SerdeError, match="too many for its changelog"):
        stored.store.put("a", "y" * 1_000, 2)
    assert stored.store.get("a") == VersionedRecord("x", 1)


def test_puts_without_a_key_or_a_time_are_refused() -> None:
    store = Stored(None).store
    with pytest.raises(StateError, match="a key cannot be None"):
        store.put(None, "x", 1)
    with pytest.raises(StateError, match="a version begins at a time"):
        store.put("a", "x")
    assert store.timestamp("a") is None


def test_newest_values_can_be_listed() -> None:
    store = Stored(None).store
    for number, key in enumerate(["a", "ab", "b", "c"]):
        store.put(key, key.upper(), number)
    store.put("c", None, 10)
    assert list(store.range("ab", "c")) == [("ab", "AB"), ("b", "B")]
    assert list(store.prefix("a")) == [("a", "A"), ("ab", "AB")]
    assert [one for one, _ in store.prefix(b"a", serde(bytes))] == ["a", "ab"]
    assert store.timestamp("b") == 2
