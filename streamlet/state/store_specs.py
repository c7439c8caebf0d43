"""The stores of a topology as values: their names, their rows, and where they are kept.

Serdes are held, never called, here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import attrs

from streamlet.serdes import Serde
from streamlet.state.rocks_choice import RocksChoice


@attrs.frozen(eq=False)
class WindowSpec:
    """The windows of a store.

    ``key`` is the serde of the record keys. ``text`` describes the windows for people, and
    ``grace_ms`` is for them too. The store shows a window until its latest time is more than
    ``retention_ms`` ahead. Where windows differ in size, ``size_ms`` is the most, and ``end_of``
    gives the end of each by its start; with None for ``size_ms`` they have no end. A row holds the
    windows of ``bucket_ms``, 0: one window; ``value`` is then the serde of a window's value. The
    result of a ``final`` window is sent once, when it closes.
    """

    key: Serde[Any]
    text: str
    retention_ms: int | None
    size_ms: int | None
    grace_ms: int
    bucket_ms: int = 0
    final: bool = False
    end_of: Callable[[int], int] | None = None
    value: Any = None


@attrs.frozen(eq=False)
class BufferSpec:
    """The buffer of a ``suppress``: when its updates are sent, and what happens when it is full.

    ``until`` is ``"window closes"`` or ``"time limit"``. Updates wait until stream time is
    ``wait_ms`` past their buffer time, which is their window's end, or the time of the key's first
    update. None for ``max_records`` or ``max_bytes``: there is no such bound.

    With ``until`` ``"join grace"`` it is that of a join of a stream with a versioned table, whose
    records wait for ``wait_ms``.
    """

    key: Serde[Any]
    until: str
    wait_ms: int
    max_records: int | None = None
    max_bytes: int | None = None
    when_full: str = ""


@attrs.frozen(eq=False)
class VersionSpec:
    """The keys, the values and the history of a versioned store.

    ``key`` is the serde of the record keys, ``value`` that of the values in the rows. The store
    remembers ``history_ms`` before the latest time that was put.
    """

    key: Serde[Any]
    value: Serde[Any]
    history_ms: int


@attrs.frozen(eq=False)
class StoreSpec:
    """A state store: its name, how it is encoded, whether it is kept on disk and in a topic.

    ``named`` is False when the name was made up from the node's number, and so moves with it.
    ``source_topic`` is set for a table read straight from a topic that is its own changelog;
    ``extractor`` is that of its times, and whether it is given the highest one so far. Rows expire
    ``ttl_ms`` after their times, None: never; a store of timers is beside it then.
    ``window`` makes it a window store, ``buffer`` one of updates that wait, ``versions`` one that
    keeps a history, ``timers`` one of timers, ``join`` one of a join of streams: the "records" of a
    side, or those that are "unmatched". ``groups``: its rows are groups of a table's rows. The
    serdes ``key`` and ``value`` are of its rows then. ``rocks``: how its rows lie in files, where
    that was chosen; it may change from start to start. With ``headers`` rows bear those of the
    record that changed them last.
    """

    name: str
    key: Serde[Any]
    value: Serde[Any]
    persistent: bool = True
    logged: bool = True
    named: bool = True
    source_topic: str | None = None
    window: WindowSpec | None = None
    buffer: BufferSpec | None = None
    join: Literal["", "records", "unmatched"] = ""
    versions: VersionSpec | None = None
    timers: bool = False
    extractor: tuple[Callable[..., int], bool] | None = None
    ttl_ms: int | None = None
    groups: bool = False
    shown: Callable[..., Any] | None = None
    rocks: RocksChoice | None = None
    headers: bool = False

    @property
    def record_key(self) -> Serde[Any]:
        """The serde of the record keys, which is not that of the rows in every store."""
        return self.key if self.versions is None else self.versions.key
