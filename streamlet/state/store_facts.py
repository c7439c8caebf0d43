"""The facts about a store that its task's state needs."""

from __future__ import annotations

from typing import Any, Protocol

from streamlet.serdes import Serde
from streamlet.state.rocks_choice import RocksChoice
from streamlet.state.source_times import Extractor
from streamlet.state.version_rows import VersionLayout
from streamlet.state.window_rows import WindowLayout


class BufferLayout(Protocol):
    """The part of a buffer's facts that its store needs."""

    @property
    def key(self) -> Serde[Any]:
        """Serde of the record keys."""
        ...


class StoreFacts(Protocol):
    """The attributes of a ``topology.nodes.StoreSpec`` that stores need."""

    @property
    def name(self) -> str:
        """The store's name, unique in the task."""
        ...

    @property
    def key(self) -> Serde[Any]:
        """Serde of keys."""
        ...

    @property
    def value(self) -> Serde[Any]:
        """Serde of values."""
        ...

    @property
    def persistent(self) -> bool:
        """True if it is kept on disk."""
        ...

    @property
    def rocks(self) -> RocksChoice | None:
        """The form of its files, where that was chosen."""
        ...

    @property
    def window(self) -> WindowLayout | None:
        """The layout of a window store's rows; None: it is a key-value store."""
        ...

    @property
    def buffer(self) -> BufferLayout | None:
        """The keys of a buffer of ``suppress``; None: it is another store."""
        ...

    @property
    def versions(self) -> VersionLayout | None:
        """The keys and the history of a versioned store; None: it is another store."""
        ...

    @property
    def join(self) -> str:
        """The part in a join of streams: "records" of a side, what is "unmatched", or neither."""
        ...

    @property
    def timers(self) -> bool:
        """True if it is a store of timers."""
        ...

    @property
    def source_topic(self) -> str | None:
        """The topic that is its changelog though others write it, if any."""
        ...

    @property
    def ttl_ms(self) -> int | None:
        """The time after which rows of a table expire, ms; None: they stay."""
        ...

    @property
    def groups(self) -> bool:
        """True if its rows are groups of a table's rows."""
        ...

    @property
    def headers(self) -> bool:
        """True if rows bear the headers of the records that changed them last."""
        ...

    @property
    def extractor(self) -> Extractor | None:
        """The times of that topic's records; None: they have their own."""
        ...
