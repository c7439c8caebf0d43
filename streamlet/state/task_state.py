"""All state of one task: its stores, and what they contain of the task's input.

    operators ──▶ stores ──drain──▶ changelog, commit ──write──▶ medium

The order is the caller's: drained entries go to the changelog, the input offsets are committed, and
only then ``write`` makes the local copy say the same, stores, positions and commit number in one
piece. So the copy on disk is never ahead of the commit, and after a crash it needs the changelog's
tail only.

Stores with ``persistent=False`` share the commit but live in memory; their positions are not
written down, so that a restart reads their changelogs from the start.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import attrs

from streamlet.errors import StateError
from streamlet.logs import get_logger
from streamlet.state.backing import Backing, Columns, StorageEngine
from streamlet.state.directory import DATABASE
from streamlet.state.drained import Drained
from streamlet.state.headed_rows import headed_stores, restored, strip
from streamlet.state.load import Loader
from streamlet.state.memory import MemoryEngine
from streamlet.state.meta import TaskMeta, layout_of
from streamlet.state.pieces import write_ahead
from streamlet.state.read_views import ReadViews
from streamlet.state.rocksdb import RocksEngine
from streamlet.state.row_headers import RowHeaders
from streamlet.state.rows import NO_TIME
from streamlet.state.store_commits import StoreCommits, TaskStore
from streamlet.state.store_kinds import store_of
from streamlet.state.store_specs import StoreSpec
from streamlet.state.time_index import TimeIndexes
from streamlet.state.unreadable import rows_of_store
from streamlet.types import NO_STATE, StateNumber, TopicPartition

log = get_logger(__name__)


class TaskState:
    """The stores of one task, opened, or made if they are missing. Not thread-safe.

    Only for stores whose changelog partition the caller gave does a position mean anything.

    Args:
        folder: the task's folder, locked by the caller; None keeps everything in memory.
        specs: the stores.
        cache_bytes: bound on the Python objects kept in memory, an estimate in bytes.
        changelogs: the changelog partition of each store that has one; for a store over a source
            topic that topic's partition.
        unread: stores that are dropped if the folder has them, since nothing reads them.
        engine: keeps the stores that are not on disk; None: memory does.

    Raises:
        TaskCorruptedError: the files are damaged; wipe them and restore.
        StateError: the folder cannot be used, or holds stores of another topology.
    """

    def __init__(
        self,
        folder: Path | None,
        specs: Sequence[StoreSpec],
        cache_bytes: int,
        changelogs: Mapping[str, TopicPartition] | None = None,
        unread: Collection[str] = (),
        engine: StorageEngine | None = None,
    ) -> None:
        self.cache_bytes = cache_bytes
        self.changelogs = dict(changelogs or {})
        #: Stores whose changelog is a source topic: its records bear no commit numbers.
        self.plain = frozenset(s.name for s in specs if s.source_topic is not None)
        self.stores: dict[str, TaskStore] = {}
        self._commits: dict[str, StoreCommits] = {}
        self.time_indexes = TimeIndexes(self.stores, specs, self.changelogs)
        #: What the stores contain: everything up to this commit of this active period.
        self.state: StateNumber = NO_STATE
        #: The committed input positions of that commit; None: unknown.
        self.inputs: Mapping[TopicPartition, int] | None = None
        #: Highest number that a store may contain: a copy that follows is ahead of ``state``.
        self.reach: StateNumber = NO_STATE
        #: Next changelog offset to read, by changelog partition.
        self.positions: dict[TopicPartition, int] = {}
        #: Highest epoch met before that offset.
        self.epochs: dict[TopicPartition, int] = {}
        #: Wall-clock times, ms, at which the logs held nothing behind those offsets, where known.
        self.times: dict[TopicPartition, int] = {}
        #: Highest epoch met by the last restore, also behind positions that are held back.
        self.met = 0
        #: Ids of the changelog topics that the stores were built from.
        self.topic_ids: dict[str, str] = {}
        #: Keys to be written to the changelog again by the next drain, by store.
        self.again: dict[str, dict[bytes, None]] = {}
        self._held: dict[TopicPartition, int] = {}  # positions not to pass while `again` waits
        self._outstanding: Drained | None = None
        self._latest: Mapping[str, int] = {}  # as the medium says, of stores not yet made
        self._layout, self._unread = layout_of(specs), unread
        self._headed = headed_stores(specs)
        memory = [s.name for s in specs if folder is None or not s.persistent]
        self._in_memory, self._memory = frozenset(memory), engine or MemoryEngine(memory)
        self._logged = self.changelogs.keys() - self._in_memory
        self._disk: StorageEngine | None = None
        if folder is not None and len(memory) < len(specs):
            self._disk = self._opened(folder, [s for s in specs if s.persistent])
        for name, spec in ((one.name, one) for one in specs):
            store = self.stores[name] = store_of(spec, self._backing(name))
            store.commits.latest = self._latest.get(name, NO_TIME)
            self._commits[name] = store.commits
        #: Headers of the records that changed rows last, by store, where they are kept.
        self.row_headers: Mapping[str, RowHeaders] = {}
        self.views = ReadViews(self)

    @classmethod
    def open(
        cls,
        folder: Path | None,
        specs: Sequence[StoreSpec],
        cache_bytes: int,
        changelogs: Mapping[str, TopicPartition] | None = None,
    ) -> Self:
        """Open the stores as a driver does: programs of tests put theirs on disk in its place."""
        return cls(folder, specs, cache_bytes, changelogs)

    # One commit.

    def drain(self) -> Drained:
        """Encode everything written since the last drain, and the keys to be written again.

        They stay readable, and in memory, until ``write`` or ``discard``; one set at most is out.

        Raises:
            SerdeError: a value cannot be encoded.
        """
        assert self._outstanding is None, "drained twice without a write"
        parts: list[Columns] = []
        again = {name: tuple(keys) for name, keys in self.again.items()}
        starts = self.time_indexes.starts()
        wanted = self.time_indexes.with_progress(again, starts)
        try:
            parts.extend(self._commits[n].drain(wanted.get(n, ())) for n in sorted(self.stores))
        except Exception:
            for part in parts:  # nothing of this drain will ever be written
                self._commits[part.store].undo_drain()
            raise
        self._outstanding = Drained({p.store: p for p in parts if p.keys}, again, starts)
        return self._outstanding

    def encoded(self, store: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """Values as of the last drain, as bytes, of keys that another process wrote as well."""
        self.time_indexes.foreign(self.changelogs[store], keys)
        part = None if self._outstanding is None else self._outstanding.columns.get(store)
        drained = {} if part is None else dict(zip(part.keys, part.values, strict=True))
        older = self._backing(store).get_many(list(keys))
        return [drained.get(key, old) for key, old in zip(keys, older, strict=True)]

    def some_entry(self, store: str) -> tuple[bytes, bytes | None]:
        """A key and its value as of the last drain, as bytes; of an empty store a key it lacks."""
        part = None if self._outstanding is None else self._outstanding.columns.get(store)
        if part is not None:
            return part.keys[0], part.values[0]
        return next(self._backing(store).scan(None, None), (b"", None))

    def write(
        self,
        drained: Drained,
        state: StateNumber,
        positions: Mapping[TopicPartition, int],
        times: Mapping[TopicPartition, int] | None = None,
        inputs: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """Put a drained set on the medium, with what the stores contain now (``state.pieces``).

        Args:
            drained: what ``drain`` returned.
            state: the commit that it belongs to.
            positions: next offset to read of changelog partitions; others keep theirs.
            times: wall-clock times, ms, at which the logs ended there, of those that are known.
            inputs: the input positions of that commit.

        Raises:
            StateError: the medium refused. The set is still outstanding, to be written again.
        """
        assert drained is self._outstanding, "not the set that was drained last"
        with self.views.writing():
            parts, between = [*drained.columns.values()], partial(self._between, state)
            rest = write_ahead(self._disk, parts, self._logged, between)
            before = self.state, self.inputs, self.reach, self.positions, self.epochs, self.times
            known = self.time_indexes.known
            self.state, self.inputs, self.reach = state, inputs, state
            self.times = {**self.times, **(times or {})}
            self.positions = {**self.positions, **positions}
            self.epochs = {tp: max(self.epochs.get(tp, 0), state.epoch) for tp in self.positions}
            self.time_indexes.written(drained, positions)
            held, self._held = self._held, {}
            try:
                self._write(rest)
            except StateError:
                self.state, self.inputs, self.reach = before[:3]
                self.positions, self.epochs, self.times = before[3:]
                self._held, self.time_indexes.known = held, known
                raise
        self._outstanding = None
        for name, keys in drained.again.items():
            for key in keys:
                self.again[name].pop(key, None)
        self.trim({name: store.written() for name, store in self._commits.items()})

    def check_entries(self, most: int | None, by_topic: Mapping[str, int]) -> None:
        """Refuse entries that a commit could not write, when they are put: such without bytes.

        And those that a changelog record of ``most`` bytes cannot hold, or less ``by_topic``. Of a
        store over a topic of another application nothing is written there.
        """
        for name, store in self._commits.items():
            log = None if name in self.plain else self.changelogs.get(name)
            store.check_entries(most and log and min(most, by_topic.get(log.topic, most)))

    def discard(self) -> None:
        """Forget everything not written: the stores are again as of ``state``."""
        self._outstanding = None
        for name, store in self._commits.items():
            store.reset(self._backing(name))

    def trim(self, recent: Mapping[str, Iterable[Any]] | None = None) -> None:
        """Evict clean entries down to the bound, ``recent`` ones last; cheap if there are few."""
        sizes = {name: store.cache_bytes() for name, store in self._commits.items()}
        total = sum(sizes.values())
        if total > self.cache_bytes and total - self.dirty_bytes() > self.cache_bytes // 10:
            for name, store in self._commits.items():
                share = self.cache_bytes * sizes[name] // total
                store.evict(share, (recent or {}).get(name, ()))

    def dirty_bytes(self) -> int:
        """Estimate of the memory that only a commit can free, bytes."""
        return sum(store.dirty_bytes() for store in self._commits.values())

    def has_dirty(self) -> bool:
        """True if a drain would return anything."""
        return any(self.again.values()) or any(s.has_changes() for s in self._commits.values())

    # Restoring.

    def loader(self, store: str) -> Loader:
        """The way to fill a store from its changelog; see ``load``."""
        return Loader(self, store, self.changelogs[store], self.row_headers.get(store))

    def load(
        self,
        columns: Columns,
        partition: TopicPartition,
        position: int,
        epoch: int,
        at_ms: int | None = None,
        newest: StateNumber = NO_STATE,
    ) -> None:
        """Write restored entries, each key once, and the position behind them.

        ``at_ms``: wall-clock time at which the log ended there, if known; ``newest``: the highest
        number among the entries. Of many the position comes later: a crash reads them again.

        Raises:
            StateError: the medium refused, or a row cannot be one of the store's.
        """
        store = self._commits[columns.store]
        assert not store.dirty, f"{columns.store}: restored while in use"
        store.forget()
        first = partition not in self.positions
        with rows_of_store(store.name):
            columns, store.latest = restored(store.read(columns), store.latest, store.headed)
            self.time_indexes.read(partition, columns.keys, position, first=first)
        with self.views.writing():
            between = partial(self._between, newest)
            (rest,) = write_ahead(self._disk, [columns], self._logged, between, bulk=True)
            self.positions = {**self.positions, partition: position}
            self.epochs = {**self.epochs, partition: max(epoch, self.epochs.get(partition, 0))}
            if at_ms is not None:
                self.times = {**self.times, partition: at_ms}
            if columns.keys:
                self.inputs = None  # the stores are between two commits
                self.reach = max(self.reach, newest)
            self._write([rest])

    def restored(
        self,
        state: StateNumber,
        skipped: Mapping[str, Mapping[bytes, int]] | None = None,
        inputs: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """Say that all stores are restored, to this commit.

        Args:
            state: the commit.
            inputs: its input positions, where they are known.
            skipped: per store, keys whose last changelog record does not count, with its offset.
                The next drain writes them again; no position passes the first of them before.
        """
        self.again, self._held = {}, {}
        for name, keys in (skipped or {}).items():
            if keys:
                self.again[name] = dict.fromkeys(keys)
                self._held[self.changelogs[name]] = min(keys.values())
        self.inputs = inputs if inputs is not None or state != self.state else self.inputs
        self.state = self.reach = state
        self._write([])

    def write_again(self, store: str, keys: Iterable[bytes]) -> None:
        """Let the next drain write these keys to the changelog again: a zombie wrote them."""
        self.again.setdefault(store, {}).update(dict.fromkeys(keys))

    def write_all_again(self, store: str) -> None:
        """Let the next drain write the whole store to its changelog, which has lost some of it."""
        self.write_again(store, (key for key, _ in self._backing(store).scan(None, None)))

    @property
    def on_disk(self) -> bool:
        """True if all stores are on disk."""
        return not self._in_memory

    def wipe(self) -> None:
        """Empty all stores and forget all positions; ``stores`` keep their identity.

        Raises:
            StateError: the files cannot be deleted.
        """
        self.views.close()
        for engine in self._engines():
            engine.wipe()
        self.state, self.positions, self.epochs, self.topic_ids = NO_STATE, {}, {}, {}
        self.times, self.time_indexes.known = {}, {}
        self.inputs, self.reach, self.again, self._held = None, NO_STATE, {}, {}
        self.discard()
        for store in self._commits.values():
            store.latest = NO_TIME
        self._write([])

    def close(self) -> None:
        """Close the files. What was not written is lost, as in a crash."""
        self.views.close()
        for medium in self._engines():
            medium.close()

    # Inside.

    def _write(self, columns: Sequence[Columns]) -> None:
        """Entries and meta; the disk first, since memory cannot refuse."""
        with self.views.writing():
            if self._disk is not None:
                disk = [part for part in columns if part.store not in self._in_memory]
                self._disk.write(disk, self._meta().to_bytes())
            self._memory.write([part for part in columns if part.store in self._in_memory], b"")

    def _between(self, reach: StateNumber) -> bytes:
        """The meta of stores between two commits, as far as this one at most."""
        return attrs.evolve(self._meta(), inputs=None, reach=max(self.reach, reach)).to_bytes()

    def _meta(self) -> TaskMeta:
        volatile, held = {self.changelogs.get(name) for name in self._in_memory}, self._held
        kept = {tp: at for tp, at in self.positions.items() if tp not in volatile}
        positions = {tp: min(at, held.get(tp, at)) for tp, at in kept.items()}
        epochs = {tp: epoch for tp, epoch in self.epochs.items() if tp in positions}
        return TaskMeta(
            self.state,
            positions,
            epochs,
            self.topic_ids,
            self._layout,
            frozenset(self._layout.keys() - self._in_memory),
            {tp: at_ms for tp, at_ms in self.times.items() if tp in positions},
            self.inputs,
            self.reach,
            {**self._latest, **{name: store.latest for name, store in self._commits.items()}},
            time_indexes=self.time_indexes.entries(positions),
            headed=self._headed,
        )

    def _opened(self, folder: Path, specs: Sequence[StoreSpec]) -> StorageEngine:
        """The database, changed only after what it holds has proved to be of this topology."""
        disk = RocksEngine(folder / DATABASE, {one.name: one.rocks for one in specs})
        try:
            self._take_meta(disk, folder)
            disk.use([one.name for one in specs], self._meta().to_bytes())
            self._headed = strip(disk, self._headed, headed_stores(specs))
        except StateError:
            disk.close()
            raise
        return disk

    def _take_meta(self, disk: RocksEngine, folder: Path) -> None:
        """Believe what the disk says, if it speaks of these stores and still has them."""
        if (raw := disk.read_meta()) is None:
            return
        meta = TaskMeta.from_bytes(raw, str(folder))
        meta = meta.checked(self._layout, self._unread, set(self.changelogs.values()), str(folder))
        if meta.unreadable:
            self._empty(disk, folder)
            return
        self.state, self.positions = meta.state, dict(meta.positions)
        self.epochs, self.topic_ids = dict(meta.epochs), dict(meta.topic_ids)
        self.times, self._latest = dict(meta.times), meta.latest
        self.time_indexes.take(meta.time_indexes)
        self.inputs, self.reach = meta.inputs, meta.reach or meta.state
        self._headed |= meta.headed
        for name in sorted(meta.layout):
            if self._lost(name, meta, disk):
                self._forget(name, folder)

    def _empty(self, disk: RocksEngine, folder: Path) -> None:
        """Delete state of an earlier version, to restore it from the changelogs."""
        lost = sorted(self._layout.keys() - self.changelogs.keys() - self._in_memory)
        then = f", but {', '.join(lost)}, which begin empty for want of one" if lost else ""
        why = "of an earlier version, without the times of rows"
        log.warning(f"the state in %s is {why}: it is restored from changelogs%s", folder, then)
        disk.wipe()

    def _lost(self, store: str, meta: TaskMeta, disk: RocksEngine) -> bool:
        """True if the meta names entries that are not here."""
        read = meta.positions.get(self.changelogs[store], 0) if store in self.changelogs else 0
        if meta.on_disk is None:
            return read > 0 and (store not in disk.stores or disk.is_empty(store))
        return store in meta.on_disk and (store in self._in_memory or store not in disk.stores)

    def _forget(self, store: str, folder: Path) -> None:
        """Have a store restored from its changelog's start."""
        tp = self.changelogs.get(store)
        then = "it begins empty, for it has no changelog" if tp is None else "it is restored"
        log.warning("the entries of store %s are missing in %s: %s", store, folder, then)
        self.state, self.inputs = NO_STATE, None  # what is here is no commit as a whole
        if tp is not None:
            self.time_indexes.forget([tp])
            for known in (self.positions, self.epochs, self.times):
                known.pop(tp, None)

    def engine(self, store: str) -> StorageEngine:
        """The medium of a store."""
        if store in self._in_memory or self._disk is None:
            return self._memory
        return self._disk

    def _engines(self) -> list[StorageEngine]:
        return [self._memory] if self._disk is None else [self._disk, self._memory]

    def _backing(self, store: str) -> Backing:
        return self.engine(store).backing(store)
