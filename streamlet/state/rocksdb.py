"""Stores on disk: one RocksDB per task, a column family per store.

The write-ahead log is on and never synced. A WriteBatch is one record of that log whatever column
families it touches, so after a kill -9 stores and positions agree at the last batch, and after a
loss of power at some earlier batch. (With the log off, a batch is not atomic over column families
unless atomic flush is set, and everything since the last flush is lost; measured, the log costs 5 %
of a write's time.) What the machine lost is restored from the changelog. rocksdict tells errors
apart by text only; ``rocksdb_errors`` is the one place that reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rocksdict import (
    AccessType,
    ColumnFamily,
    IngestExternalFileOptions,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
)

from streamlet.columnwise import put_items
from streamlet.errors import StateError, TaskCorruptedError
from streamlet.logs import get_logger
from streamlet.state.backing import Columns
from streamlet.state.rocks_choice import RocksChoice
from streamlet.state.rocksdb_errors import is_no_such_key, state_error
from streamlet.state.rocksdb_files import BULK, manifest, names_in, prepare, wipe_folder
from streamlet.state.rocksdb_options import (
    FIGURES,
    database_options,
    main_options,
    tickers,
    write_sorted,
)

log = get_logger(__name__)

_META = "default"  # column family of the positions
_META_KEY = b"task"
_MANIFEST_KEY = b"manifest"  # name and least size of the manifest, see ``_check_manifest``
_FEW_ROWS = RocksChoice(bloom_bits=0)
_STORE = "store."  # prefix of the column families of stores
#: Errors of rocksdict that are bugs of ours: not bytes, or keys out of order.
_BUGS = (ValueError, TypeError, AssertionError)


class FamilySnapshot:
    """Reads a column family as it was at one moment; a snapshot raises where it has no key.

    What rocksdict's snapshots iterate over is not the snapshot but the family as it is by then. So
    there is an iterator from the beginning on, which stays as it was made; one scan at a time has
    it.

    Args:
        family: the database stays open as long as this is held, and nothing may be written while it
            is made.
    """

    def __init__(self, family: Any) -> None:
        self._snapshot = family.snapshot()
        self._iterator = family.iter()

    def iter(self, options: Any) -> Any:
        """The iterator, to be placed; it heeds no bounds."""
        return self._iterator

    def get(self, key: Any) -> Any:
        """The value of a key, or None; of a list of keys a list."""
        if isinstance(key, list):
            return [self.get(one) for one in key]
        try:
            return self._snapshot[key]
        except Exception as error:  # rocksdict raises bare Exceptions
            if is_no_such_key(error):
                return None
            raise


class RocksBacking:
    """One store on disk.

    Args:
        family: its rows.
        folder: of the database.
        options: those that the database was opened with.
    """

    def __init__(
        self, family: Rdict | FamilySnapshot, folder: Path, options: Options | None = None
    ) -> None:
        self._family, self._options = family, options
        self._folder = folder

    def get(self, key: bytes) -> bytes | None:
        """The value, or None."""
        found: bytes | None = _guarded(self._folder, self._family.get, key)
        return found

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """The values, in order; less than half the time of single reads."""
        found: list[bytes | None] = _guarded(self._folder, self._family.get, keys)
        return found

    def figures(self) -> dict[str, int]:
        """RocksDB's own figures of the store, and of its database where that keeps statistics."""
        read: Any = self._family.property_int_value  # type: ignore[union-attr]  # none of snapshots
        own = {name: _guarded(self._folder, read, f"rocksdb.{name}") or 0 for name in FIGURES}
        return own if self._options is None else {**own, **tickers(self._options)}

    def scan(
        self, low: bytes | None, high: bytes | None, *, backward: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Entries by key, of a snapshot. The database cannot close while this is held."""
        options = ReadOptions()
        if high is not None:
            options.set_iterate_upper_bound(high)
        found = _guarded(self._folder, lambda: self._family.iter(options))
        step = found.prev if backward else found.next
        try:
            _place(found, high if backward else low, backward=backward)
            # rocksdict takes a lower bound for an upper one, and a snapshot heeds neither.
            heeded = not (backward or isinstance(self._family, FamilySnapshot))
            beyond = low if backward else None if heeded else high
            while found.valid():
                key = found.key()
                if beyond is not None and (key < beyond if backward else key >= beyond):
                    break
                yield key, found.value()
                step()
            # An iterator that met a damaged block only stops; without this the answer is short.
            found.status()
        except _BUGS:
            raise
        except Exception as error:
            raise state_error(self._folder, error) from error


class RocksEngine:
    """A task's database in ``folder``, made if it is missing.

    Opening changes no store: the caller compares ``read_meta`` with its topology first, and then
    says with ``use`` which stores it wants.

    Args:
        folder: the database's own folder.
        chosen: what stores have of their own, by name.

    Raises:
        TaskCorruptedError: the files are damaged or incomplete.
        StateError: the folder cannot be used.
    """

    bulk_records = 20_000

    def __init__(
        self, folder: Path, chosen: Mapping[str, RocksChoice | None] | None = None
    ) -> None:
        self._folder = folder
        stores = {_STORE + name: one for name, one in (chosen or {}).items()}
        self._chosen = {**stores, _META: _FEW_ROWS}
        self._names: tuple[str, ...] = ()
        self._bulks = 0
        names_in(folder)
        before = manifest(folder)
        self._open()
        try:
            self._check_manifest(before)
        except TaskCorruptedError:
            self._shut()
            raise

    def _open(self) -> None:
        prepare(folder := self._folder)
        # A new one has all of its stores at once: each that is made later costs half an opening.
        names = sorted({_META, *(_families_on_disk(folder) or self._chosen)})
        options = {name: database_options(self._chosen.get(name)) for name in names}
        self._options = main_options()
        self._db: Rdict = _guarded(folder, lambda: Rdict(str(folder), self._options, options))
        self._families: dict[str, Rdict] = {}
        self._handles: dict[str, ColumnFamily] = {}
        for name in names:
            if name.startswith(_STORE):
                self._take_family(name.removeprefix(_STORE))
        self._meta_handle = self._db.get_column_family_handle(_META)
        self._manifest = folder / manifest(folder)[0]

    def _take_family(self, store: str) -> None:
        self._families[store] = self._db.get_column_family(_STORE + store)
        self._handles[store] = self._db.get_column_family_handle(_STORE + store)

    @property
    def stores(self) -> frozenset[str]:
        """Names of the stores in the database."""
        return frozenset(self._families)

    def is_empty(self, store: str) -> bool:
        """True if a store has no entry."""
        return next(self.backing(store).scan(None, None), None) is None

    def use(self, stores: Sequence[str], meta: bytes) -> None:
        """Drop other stores than these, and create those that are missing.

        ``meta`` goes first: a crash right after a store was created must not leave a position that
        the empty store does not have.

        Raises:
            StateError: the medium refused.
        """
        self._names = tuple(stores)
        self.write([], meta)
        for name in sorted(self.stores - set(stores)):
            self._handles.pop(name)
            _guarded(self._folder, self._families.pop(name).close)
            _guarded(self._folder, self._db.drop_column_family, _STORE + name)
        self._create_missing()

    def _create_missing(self) -> None:
        for name in self._names:
            if name not in self._families:
                create = self._db.create_column_family
                own = database_options(self._chosen.get(_STORE + name))
                _guarded(self._folder, create, _STORE + name, own).close()
                self._take_family(name)

    def _check_manifest(self, found: tuple[str, int]) -> None:
        """Refuse a manifest that was longer when we last wrote.

        RocksDB takes a manifest that ends too early for one whose end was never written, and opens
        without the files that the missing part named. The positions may be in those, and restoring
        from the beginning would not delete the entries.
        """
        raw: bytes | None = _guarded(self._folder, self._db.get, _MANIFEST_KEY)
        name, _, size = (raw or b"").decode().partition(" ")
        if raw is not None and found[0] == name and found[1] < int(size):
            why = f"{name} has {found[1]} bytes and had {size}"
        elif raw is None and not all(map(self.is_empty, self.stores)):
            why = "it has entries, and no positions of them"
        else:
            return
        raise TaskCorruptedError(f"state in {self._folder} is damaged: {why}")

    def backing(self, store: str) -> RocksBacking:
        """The column family of one store."""
        return RocksBacking(self._families[store], self._folder, self._options)

    def snapshot(self, store: str) -> RocksBacking:
        """One store as it is now, whatever is written later; held, it keeps the database open."""
        family = _guarded(self._folder, FamilySnapshot, self._families[store])
        return RocksBacking(family, self._folder)

    def read_meta(self) -> bytes | None:
        """Read the ``meta`` of the last write."""
        found: bytes | None = _guarded(self._folder, self._db.get, _META_KEY)
        return found

    def write(self, columns: Sequence[Columns], meta: bytes) -> None:
        """Write entries and meta, all or nothing."""
        batch = WriteBatch(raw_mode=True)
        for part in columns:
            self._put(batch, part)
            if part.expired is not None:  # which goes to no default family but RocksDB's own
                batch.delete_range(*part.expired, self._handles[part.store])
        batch.put(_META_KEY, meta, self._meta_handle)
        batch.put(_MANIFEST_KEY, self._manifest_now(), self._meta_handle)
        batch.set_default_column_family(None)
        _guarded(self._folder, self._db.write, batch)

    def write_ahead(self, columns: Columns) -> None:
        """Write entries of one store, all or nothing."""
        batch = WriteBatch(raw_mode=True)
        self._put(batch, columns)
        batch.set_default_column_family(None)
        _guarded(self._folder, self._db.write, batch)

    def _put(self, batch: WriteBatch, part: Columns) -> None:
        batch.set_default_column_family(self._handles[part.store])
        put_items(batch, part.keys, part.values, 0, len(part.keys))

    def _flush(self) -> None:
        """Flush as closing would, and note how long the manifest is after it."""
        for family in self._families.values():
            _guarded(self._folder, family.flush)
        batch = WriteBatch(raw_mode=True)
        batch.put(_MANIFEST_KEY, self._manifest_now(), self._meta_handle)
        _guarded(self._folder, self._db.write, batch)

    def _manifest_now(self) -> bytes:
        size = _guarded(self._folder, lambda: self._manifest.stat().st_size)
        return f"{self._manifest.name} {size}".encode()

    def bulk(self, columns: Columns) -> None:
        """One sorted file, taken over by the database as it is."""
        if not columns.keys:
            return
        self._bulks += 1
        path = str(self._folder / f"{BULK}{self._bulks}")
        own = self._chosen.get(_STORE + columns.store)
        _guarded(self._folder, write_sorted, path, columns, own)
        options = IngestExternalFileOptions()
        options.set_move_files(True)
        _guarded(self._folder, self._families[columns.store].ingest_external_file, [path], options)

    def wipe(self) -> None:
        """Delete the files and start empty."""
        self._shut()
        wipe_folder(self._folder)
        self._open()
        self._create_missing()

    def close(self) -> None:
        """Close the database; its lock goes when the last iterator over it is gone."""
        with suppress(StateError):  # the size as of the last write then has to do
            self._flush()
        self._shut()

    def _shut(self) -> None:
        """Close every handle; the last one closes the database.

        Closing flushes, which a damaged file or a full disk refuses. The handle is gone all the
        same, and the write-ahead log holds what was not flushed.
        """
        handles = [*self._families.values(), self._db]
        self._families, self._handles = {}, {}
        if hasattr(self, "_meta_handle"):
            del self._meta_handle  # handles keep the database open
        refused = ""
        for handle in handles:
            try:
                _guarded(self._folder, handle.close)
            except StateError as error:
                refused = refused or str(error)
        if refused:
            log.warning("closed without a flush: %s", refused)


def _place(found: Any, at: bytes | None, *, backward: bool) -> None:
    """Place an iterator at the first entry of a scan: at a key or behind it, backward before it."""
    if at is None:
        (found.seek_to_last if backward else found.seek_to_first)()
    elif not backward:
        found.seek(at)
    else:
        found.seek_for_prev(at)
        if found.valid() and found.key() == at:
            found.prev()


def read_meta(folder: Path) -> bytes | None:
    """Read the meta of the last write, without opening the stores; None if there are none.

    Also while another process has the database open.

    Raises:
        TaskCorruptedError: the files are damaged or incomplete.
        StateError: the folder cannot be read.
    """
    if not _families_on_disk(folder):
        return None
    access = AccessType.read_only(False)
    database = _guarded(
        folder, lambda: Rdict(str(folder), database_options(), {_META: database_options()}, access)
    )
    found: bytes | None = _guarded(folder, database.get, _META_KEY)
    database.close()
    return found


def _families_on_disk(folder: Path) -> list[str]:
    """Column families of an existing database; none if there is none.

    A folder with files but without CURRENT would be taken for a new database, and its files deleted
    one by one as unknown: it is damaged. A manifest alone is what a process leaves that dies while
    it makes the database: RocksDB writes CURRENT after the manifest and before the first log.
    """
    names = names_in(folder)
    if "CURRENT" not in names:
        if any(name.endswith((".sst", ".log")) for name in names):
            raise TaskCorruptedError(f"state in {folder} is damaged: CURRENT is missing")
        return []
    found: list[str] = _guarded(folder, Rdict.list_cf, str(folder))
    return found


def _guarded(folder: Path, call: Callable[..., Any], *args: Any) -> Any:
    """The call's answer, with rocksdict's errors made ours."""
    try:
        return call(*args)
    except _BUGS:
        raise
    except Exception as error:  # rocksdict raises bare Exceptions
        raise state_error(folder, error) from error
