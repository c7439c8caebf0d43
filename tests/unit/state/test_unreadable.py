"""Rows that cannot be a store's, as anyone with WRITE on a changelog can make them."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from streamlet.errors import StateError
from streamlet.serdes import serde
from streamlet.state.backing import Columns
from streamlet.state.bucket_store import bucket_rows
from streamlet.state.buffer_rows import buffer_rows
from streamlet.state.group_notes import NOTE_PREFIX
from streamlet.state.join_rows import kept_rows
from streamlet.state.rows import TIME_BYTES
from streamlet.state.store_commits import StoreCommits
from streamlet.state.store_specs import BufferSpec
from streamlet.state.task_state import TaskState
from streamlet.state.timer_store import key_and_name, timer_rows
from streamlet.state.unmatched_store import unmatched_rows
from streamlet.state.version_rows import version_rows
from streamlet.state.window_rows import PROGRESS_KEY, time_bytes
from tests.unit.state.support import Layout, Spec, changelog, versions

KINDS = {
    "keys": Spec("s"),
    "windows": Spec("s", window=Layout()),
    "final windows": Spec("s", window=Layout(final=True)),
    "sessions": Spec("s", value=bucket_rows(serde(int)), window=Layout(bucket_ms=40)),
    "records": Spec("s", value=kept_rows(serde(str)), window=Layout(), join="records"),
    "unmatched": Spec("s", value=unmatched_rows(serde(str), serde(int)), join="unmatched"),
    "buffer": Spec("s", value=buffer_rows(serde(int)), buffer=BufferSpec(serde(str), "", 0)),
    "timers": Spec("s", key=bytes, value=timer_rows(), timers=True),
    "groups": Spec("s", groups=True),
    "expiring": Spec("s", ttl_ms=100),
    "versions": Spec(
        "s",
        value=version_rows(serde(int)),
        versions=versions(),
    ),
}
TIMES = struct.Struct(">qq")
FAR = (1 << 63) - 1
ROWS = [b"", b"\xff" * 5, bytes(TIME_BYTES), bytes(TIME_BYTES) + b"\xff" * 3, bytes(40)]
ROWS += [bytes(TIME_BYTES) + TIMES.pack(*times) for times in ((FAR, FAR), (-FAR - 1, -FAR - 1))]
ROWS += [bytes(TIME_BYTES) + TIMES.pack(5, 5) + emitted for emitted in (b"\0", bytes(8), bytes(24))]
KEYS = [b"", b"\x80", time_bytes(5), time_bytes(5) + b"\xff", PROGRESS_KEY, NOTE_PREFIX + b"g"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("key", KEYS)
def test_a_row_that_cannot_be_is_refused_with_the_store_named(kind: str, key: bytes) -> None:
    for row in ROWS:
        state = TaskState(None, [KINDS[kind]], 1, {"s": changelog("s")})
        told = refusals(state, Columns("s", [key], [row]))
        assert all("store s" in text for text in told), (row, told)
        state.close()


def refusals(state: TaskState, columns: Columns) -> list[str]:
    """The refusals of rows, when they are restored, used and committed."""
    told = []
    for step in (
        lambda: state.load(columns, changelog("s"), 7, 1),
        lambda: used(state.stores["s"]),
        state.drain,
    ):
        try:
            step()
        except StateError as error:
            told.append(str(error))
    return told


def used(store: Any) -> None:
    """Ask a store what its operators ask."""
    assert isinstance(store.commits, StoreCommits)
    times = getattr(store, "times", None)
    for part in (store, times, getattr(store, "order", None), store.commits.beside):
        for name in ("least", "count", "size", "first_time", "kept_from", "sides", "by_group"):
            getattr(part, name, None)
    if times is not None:
        getattr(times, "row", times).observed(2)
        store.progress.sent  # noqa: B018
    list(store.range())


@pytest.mark.parametrize(
    "key", [b"", b"\0", b"\xff\xff", b"k\0\x09", b"\xff\0\x01", b"n\xff\0\x01"]
)
def test_a_key_of_a_timer_that_cannot_be_is_refused(key: bytes) -> None:
    with pytest.raises(StateError):
        key_and_name(key)
