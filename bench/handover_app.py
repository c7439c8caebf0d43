"""The application whose tasks are handed over: counts per key, every update written.

``streamlet run bench.handover_app:app``; the environment says which topics, and whether a
repartition topic is before the counts (``EDGES``). A state entry has about 100 bytes. An update
bears the process that wrote it, the count and when its input was sent.
"""

from __future__ import annotations

import os
import struct

import streamlet as sl

NAME, EDGE = "BENCH_HANDOVER", "BENCH_HANDOVER_EDGE"
#: Repartition topics: with origins, and with records that wait for their writer's commit.
EDGES = ("exact", "waiting")
#: Process id, count, send time in ms.
UPDATE = struct.Struct(">iqq")

_ENTRY = struct.Struct(">q8s84x")
_COUNT = struct.Struct(">q")
_NOTHING = _ENTRY.pack(0, b"")
_PID = struct.pack(">i", os.getpid())


def names(application: str) -> tuple[str, str]:
    """Input and output topic of an application."""
    return f"{application}-in", f"{application}-out"


def count(_: bytes, sent: bytes, entry: bytes) -> bytes:
    """One more; the value of an input record is its send time."""
    return _ENTRY.pack(_COUNT.unpack_from(entry)[0] + 1, sent)


def update(_: bytes, entry: bytes) -> bytes:
    """What is written of an entry."""
    return _PID + entry[:16]


def same(key: bytes, _: bytes) -> bytes:
    """The key, so that an output partition is fed by one input partition."""
    return key


def build(application: str, edge: str = "") -> sl.App:
    """The application by name; ``edge``: one of ``EDGES``, or none."""
    source, output = names(application)
    app = sl.App(application)
    sent = app.stream(source, key=bytes, value=bytes)
    counts = sent.group_by_key()
    if edge:
        chosen = same if edge == "exact" else sl.non_deterministic(same)
        counts = sent.group_by(chosen, key=bytes)
    entries = counts.aggregate(lambda: _NOTHING, count, value=bytes, store="counts")
    entries.to_stream().map_values(update, value=bytes).to(output)
    return app


app = build(os.environ.get(NAME, "bench-handover"), os.environ.get(EDGE, ""))
