"""Any history of a store over either medium looks like the same history of a dict."""

import copy
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from streamlet.state.drained import Drained
from streamlet.state.rows import TIME_BYTES, time_of_row
from streamlet.state.task_state import TaskState
from streamlet.types import StateNumber, TopicPartition
from tests.shares import share_of
from tests.unit.state.support import Spec, changelog

KINDS: dict[str, tuple[Any, Any]] = {
    "str": (str, st.text("ab\u00e9", max_size=3)),
    "int": (int, st.integers(-3, 300)),
    "bytes": (bytes, st.binary(max_size=2)),
    "dict": (dict, st.fixed_dictionaries({"k": st.one_of(st.booleans(), st.integers(0, 2))})),
}
times = st.integers(-1, 2**40)
values = st.one_of(st.none(), st.dictionaries(st.sampled_from("xy"), st.integers(0, 9), max_size=2))


class StoreMachine(RuleBasedStateMachine):
    """Puts, scans, drains, writes, loses caches and reopens; three dicts say what must be seen."""

    kind = "str"
    on_disk = True
    cache_bytes = 1

    def __init__(self) -> None:
        super().__init__()
        key_type, _ = KINDS[self.kind]
        self.spec = Spec("s", key_type, dict)
        self.folder = Path(tempfile.mkdtemp()) if self.on_disk else None
        self.now: dict[bytes, Any] = {}
        self.drained_then: dict[bytes, Any] = {}
        self.written: dict[bytes, Any] = {}
        self.number = 0
        self.position = 0
        self.outstanding: Drained | None = None
        self.state = self.open()

    def open(self) -> TaskState:
        """The state as a starting process finds it."""
        return TaskState(self.folder, [self.spec], self.cache_bytes, {"s": changelog("s")})

    def teardown(self) -> None:
        self.state.close()
        if self.folder is not None:
            shutil.rmtree(self.folder)

    @property
    def store(self) -> Any:
        """The store under test."""
        return self.state.stores["s"]

    def key(self, data: st.DataObject) -> Any:
        """A key of this machine's kind."""
        return data.draw(KINDS[self.kind][1])

    @rule(data=st.data(), value=values, time=times)
    def put(self, data: st.DataObject, value: Any, time: int) -> None:
        key = self.key(data)
        self.store.put(key, copy.deepcopy(value), time)
        self.now[self.spec.key.encode(key)] = None if value is None else (value, time)

    @rule(data=st.data(), value=values, time=times)
    def write_the_hot_way(self, data: st.DataObject, value: Any, time: int) -> None:
        keys = [self.key(data) for _ in range(3)]
        ckeys = self.store.ckeys(keys)
        for ckey in ckeys:
            self.store.cache[ckey] = copy.deepcopy(value)
        self.store.mark(ckeys, [time] * len(ckeys))
        self.store.commits.latest = max(self.store.commits.latest, time)
        row = None if value is None else (value, time)
        self.now.update((self.spec.key.encode(key), row) for key in keys)

    @rule(data=st.data())
    def get(self, data: st.DataObject) -> None:
        key = self.key(data)
        value, time = self.now.get(self.spec.key.encode(key)) or (None, -1)
        assert self.store.get(key) == value
        assert self.store.timestamp(key) == (None if time == -1 else time)
        self.store.load_many(self.store.ckeys([key, key]))
        (ckey,) = self.store.ckeys([key])
        assert self.store.load(ckey) == self.store.cache[ckey]

    def expected(self, low: bytes, high: bytes | None) -> list[tuple[Any, Any]]:
        """Entries of the dict with low <= key bytes < high."""
        return [
            (self.spec.key.decode(key), row[0])
            for key, row in sorted(self.now.items())
            if row is not None and low <= key and (high is None or key < high)
        ]

    @rule(data=st.data())
    def scan(self, data: st.DataObject) -> None:
        low, high = self.key(data), self.key(data)
        a, b = self.spec.key.encode(low), self.spec.key.encode(high)
        assert list(self.store.range(low, high)) == self.expected(a, b + b"\0")
        assert list(self.store.range(None, high)) == self.expected(b"", b + b"\0")
        assert list(self.store.range(low)) == self.expected(a, None)
        backward = list(self.store.backward_range(low, high))
        assert backward == self.expected(a, b + b"\0")[::-1]
        assert list(self.store.backward_range(None, None)) == self.expected(b"", None)[::-1]
        assert list(self.store.prefix(low)) == [
            entry
            for entry in self.expected(a, None)
            if self.spec.key.encode(entry[0])[: len(a)] == a
        ]

    @precondition(lambda self: self.outstanding is None)
    @rule()
    def drain(self) -> None:
        drained = self.state.drain()
        before = dict(self.written)
        self.outstanding = drained
        self.drained_then = dict(self.now)
        for part in drained.columns.values():
            decode = self.spec.value.decode
            before.update(
                (k, None if v is None else (decode(v[TIME_BYTES:]), time_of_row(v)))
                for k, v in zip(part.keys, part.values, strict=True)
            )
        seen = {k: v for k, v in before.items() if v is not None}
        assert seen == {k: v for k, v in self.now.items() if v is not None}

    @precondition(lambda self: self.outstanding is not None)
    @rule()
    def write(self) -> None:
        assert self.outstanding is not None
        self.number += 1
        self.position += len(self.outstanding)
        number = StateNumber(1, self.number)
        self.state.write(self.outstanding, number, {changelog("s"): self.position})
        self.outstanding = None
        self.written = dict(self.drained_then)

    @rule()
    def discard(self) -> None:
        self.state.discard()
        self.outstanding = None
        self.now = dict(self.written)

    @precondition(lambda self: self.on_disk)
    @rule()
    def crash_and_reopen(self) -> None:
        self.state.close()
        self.state = self.open()
        self.outstanding = None
        self.now = dict(self.written)
        assert self.state.state == StateNumber(int(self.number > 0), self.number)
        assert self.state.positions.get(changelog("s"), 0) == self.position

    @rule()
    def trim(self) -> None:
        self.state.trim()

    @invariant()
    def holds(self) -> None:
        self.store.commits.check_invariants()
        youngest = max((row[1] for row in self.now.values() if row is not None), default=-1)
        assert self.store.commits.latest >= youngest


@pytest.mark.parametrize("medium", ["memory", "disk"])
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_store_is_a_dict(kind: str, medium: str) -> None:
    machine = type("Machine", (StoreMachine,), {"kind": kind, "on_disk": medium == "disk"})
    examples = 60 if medium == "memory" else 25
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=share_of(examples), stateful_step_count=40, deadline=None),
    )


def test_positions_are_topic_partitions_after_a_reopen(tmp_path: Path) -> None:
    spec = Spec("s")
    first = TaskState(tmp_path, [spec], 1 << 20, {"s": changelog("s", 3)})
    first.stores["s"].put("a", 1)
    first.topic_ids = {"app-s-changelog": "id-1"}
    first.write(first.drain(), StateNumber(2, 1), {changelog("s", 3): 17})
    first.close()
    again = TaskState(tmp_path, [spec], 1 << 20, {"s": changelog("s", 3)})
    assert again.positions == {TopicPartition("app-s-changelog", 3): 17}
    assert (again.epochs, again.topic_ids) == ({changelog("s", 3): 2}, {"app-s-changelog": "id-1"})
    again.close()
