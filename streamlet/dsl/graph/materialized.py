"""``Materialized``: how a store is kept, where its name alone does not say enough."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import attrs

from streamlet.absent import explains_misuse
from streamlet.arguments import calls_told_by_form, check_is
from streamlet.dsl.graph.durations import Duration, milliseconds
from streamlet.errors import TopologyError
from streamlet.state.rocks_choice import RocksChoice, rocks_choice


@explains_misuse
@calls_told_by_form
@attrs.frozen
class Materialized:
    """A store's name and where its contents are.

    Without a name one is made up, which moves when the topology changes above it. ``persistent``
    False keeps it in memory only: a restart reads the whole changelog. ``logged`` False keeps no
    changelog: what it held is gone with its host.

    ``retention`` is for windows: how long the store shows them, counted back from the latest one;
    at least as long as they take late records, which is the default.

    ``history`` makes a table versioned (``table`` and ``to_table`` only): rows keep what they were,
    so far back from the latest timestamp. Changes may come out of order; those that are older are
    left out. Streams join with the row as of the time of their record.

    ``ttl`` is for tables of ``count``, ``reduce``, ``aggregate``, ``to_table``, joins of two tables
    and stored filters and maps: a row is gone once stream time is so far past the row's own time.
    From then on no reader sees it, and the next record of its key begins a new one. Nothing is sent
    about that: what was made of the row downstream stays. There is a second store, ``NAME-ttl``.

    ``headers`` True keeps with each row the headers of the record that changed it last, as Kafka
    Streams does with ``dsl.store.format=HEADERS``: the ``headers`` of the store's class gives them,
    and queries do. They lie in the row, so they go wherever it goes; it takes their bytes, and
    8 KiB of them at most: of a record with more none are kept. Those of traces and of streamlet
    itself are left out. It is for rows by key, windows, sessions and versions, each of which has
    its own, and may change from start to start.

    ``rocksdb`` says how the rows of a persistent store lie in files, in place of Kafka Streams'
    ``rocksdb.config.setter``: a dict with some of ``compression`` (lz4, snappy, zstd, zlib or
    none; the default is lz4), ``block.size`` (4 KiB), ``bloom.bits`` (10 for each key; 0: none) and
    ``write.buffer.size`` (4 MiB). It may change from start to start: files keep the form that they
    were written in. ``rocksdb.block.cache.bytes`` and ``rocksdb.memtables.bytes`` bound the memory
    of all stores together.

    Raises:
        TopologyError: an unknown setting of RocksDB, or a value that cannot be.
        WrongTypeError: an argument is of another type.
    """

    name: str | None = None
    persistent: bool = True
    logged: bool = True
    retention: Duration | None = None
    history: Duration | None = None
    ttl: Duration | None = None
    rocksdb: Mapping[str, object] | None = attrs.field(default=None, hash=False)
    headers: bool = False
    #: What ``rocksdb`` says, checked.
    rocks: RocksChoice | None = attrs.field(init=False, repr=False)

    @rocks.default
    def _checked(self) -> RocksChoice | None:
        for name in ("retention", "history", "ttl"):
            if (given := getattr(self, name)) is not None:
                milliseconds(f"Materialized({name}=)", given)
        if self.rocksdb is None:
            return None
        if not self.persistent:
            raise TopologyError(f"store {self.name}: rocksdb= is for stores on disk")
        return rocks_choice(self.rocksdb, f"store {self.name}: rocksdb")

    @classmethod
    def of(cls, given: StoreLike) -> Materialized:
        """Read what a user gave as ``store=``.

        Raises:
            WrongTypeError: it is neither a name nor a ``Materialized``.
            TopologyError: the name is empty.
        """
        if given is not None:
            check_is("store=", given, (str, cls), "a name or a Materialized")
        how = given if isinstance(given, Materialized) else cls(given)
        if how.name == "":
            raise TopologyError("store= is an empty text: name the store, or leave store= out")
        return how


#: What ``store=`` takes: a name, or more.
StoreLike: TypeAlias = str | Materialized | None


def no_headers(store: str | None) -> str:
    """The reason why a store cannot keep the headers of records."""
    return (
        f"store {store}: headers= is for rows by key, windows, sessions and versions; buffers, "
        "deduplication and joins of streams keep records for themselves, which nothing else "
        "reads, and global tables are read from their topic"
    )
