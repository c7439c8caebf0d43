"""Rows of stores, which may stem from a changelog, and what Spark's stages hand on."""

from __future__ import annotations

import struct
from typing import Any

from streamlet.errors import SerdeError, StateError
from streamlet.serdes import Serde, serde
from streamlet.spark import error_notes
from streamlet.spark.rows.blobs import Records, pack, unpack
from streamlet.state import group_notes
from streamlet.state.bucket_store import bucket_rows
from streamlet.state.buffer_rows import buffer_rows
from streamlet.state.headed_parts import with_block
from streamlet.state.join_rows import kept_rows
from streamlet.state.timer_store import key_and_name, timer_key, timer_rows
from streamlet.state.unmatched_store import LEFT, unmatched_rows
from streamlet.state.version_rows import version_rows
from streamlet.state.window_rows import WindowProgress, row_keys, sent_bytes
from tests.fuzz.target import Target


def _rows(name: str, of: Serde[Any], *values: object) -> Target:
    def read(raw: bytes) -> None:
        of.decode(raw)

    seeds = tuple(of.encode(value) for value in values)
    return Target(f"rows {name}", read, (SerdeError, struct.error), seeds)


def _headed(*part: object) -> Any:
    return with_block(part, b"\x90")


def _progress(raw: bytes) -> None:
    found = WindowProgress.from_row(raw)
    WindowProgress.from_row(found.to_row())
    found.sent  # noqa: B018


def _note(raw: bytes) -> None:
    found = error_notes.noted(raw.decode(errors="replace"))
    assert found is None or isinstance(found[1], str)


_TEXTS = ["a", "b"]
ROWS = (
    _rows("of windows", row_keys(serde(str)), (5_000, "key")),
    _rows("of versions", version_rows(serde(str)), ([7], [(5, "a"), _headed(7, None)])),
    _rows("of sessions", bucket_rows(serde(str)), [(7, 5, "a"), _headed(9, 8, "b")]),
    _rows("of joins", kept_rows(serde(str)), [(7, "a"), (9, "b")]),
    _rows("of waiting joins", unmatched_rows(serde(str), serde(str)), (LEFT, _TEXTS)),
    _rows("of buffers", buffer_rows(serde(str)), ("a", None, [("h", b"x")], 0), 7),
    _rows("of timers", timer_rows(), 1_766_000_000_000),
    Target(
        "notes of groups",
        group_notes._read,
        (ValueError,),
        (group_notes._written({b"v": [None, b"w"], b"x": []}),),
    ),
    Target("key of a timer", key_and_name, (StateError,), (timer_key(b"key", "name"),)),
    Target(
        "progress of a store",
        _progress,
        (ValueError,),
        (WindowProgress(5, 7).to_row(), WindowProgress(5, 7, sent_bytes(3)).to_row()),
        (bytes(8) + b"abc", bytes(8) + b"\x7f" + b"\xff" * 15),
    ),
    Target(
        "records between stages",
        unpack,
        (StateError,),
        (
            pack(Records([b"k", None], [b"v", b"w"], [5, 7], headers=[[("h", b"x")], None])),
            pack(Records([b"k"], [None], [5], first=9, partitions=[3])),
        ),
        batch=100,
    ),
    Target(
        "note of an error",
        _note,
        (),
        (b'Traceback\nstreamlet reports: ["StateError", "why"]\n',),
        (
            b"streamlet reports: x",
            b"streamlet reports: [{}, 1]",
            b"streamlet reports: " + b"[" * 99_999,
        ),
    ),
)
