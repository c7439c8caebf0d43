"""Settings of the databases on disk and of sorted files, and what all of a process share."""

from __future__ import annotations

import functools

import attrs
from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Env,
    Options,
    SstFileWriter,
    WriteBufferManager,
)

from streamlet.columnwise import put_items, sorted_rows
from streamlet.state.backing import Columns
from streamlet.state.pieces import PIECE_ROWS
from streamlet.state.rocks_choice import RocksChoice

#: Memory that all tasks of the process share, bytes, unless ``bound_memory`` says otherwise.
_BLOCK_CACHE_BYTES = 16 << 20
#: What the table of the block cache is made for, which cannot grow: ten times as much in blocks of
#: the usual size. It is address space, and no memory until there are blocks.
_MOST_CACHE_BYTES = 256 << 20
_MEMTABLE_BYTES = 24 << 20
#: The share of a full memtable that its filter takes, which is there from its first row on.
_FILTER_SHARE = 0.005
#: Limits of one task's database.
_WAL_BYTES = 16 << 20
_OPEN_FILES = 64
#: Threads for compactions and threads for flushes, which all databases of the process share.
_COMPACTIONS = _FLUSHES = 1

#: What a block of a file may have in it.
BLOCK_KINDS = ("data", "index", "filter")
#: Properties of RocksDB that are figures of a store; its block cache is that of the process.
FIGURES = (
    *("estimate-num-keys", "total-sst-files-size", "size-all-mem-tables"),
    *("estimate-pending-compaction-bytes", "num-running-compactions", "is-write-stopped"),
    *("background-errors", "block-cache-usage"),
)
#: Counters of RocksDB's statistics that are figures of a database, where it keeps these.
TICKERS = (
    *(f"block.cache.{kind}.{what}" for kind in BLOCK_KINDS for what in ("hit", "miss")),
    *("memtable.hit", "memtable.miss", "stall.micros"),
)


def start_threads() -> None:
    """Start the threads that flush and compact, unless they run already.

    Else the first thread that opens a database starts them, and they keep its priority for good,
    the next to open the databases.
    """
    env = Env()
    env.set_low_priority_background_threads(_COMPACTIONS)
    env.set_high_priority_background_threads(_FLUSHES)


@functools.cache
def _shared_memory() -> tuple[Cache, WriteBufferManager]:
    """One block cache and one bound on memtables for all databases of this process.

    RocksDB's older cache is cut into parts of half a megabyte. The filter of a file of 400,000 keys
    does not fit into one, and was read from the file again with each key.
    """
    cache = Cache.new_hyper_clock_cache(_MOST_CACHE_BYTES, 0)
    cache.set_capacity(_BLOCK_CACHE_BYTES)
    return cache, WriteBufferManager(_MEMTABLE_BYTES, False)


def bound_memory(block_cache_bytes: int, memtables_bytes: int) -> None:
    """Bound the memory of all databases of this process, open ones and those to come."""
    cache, memtables = _shared_memory()
    cache.set_capacity(block_cache_bytes)
    memtables.set_buffer_size(memtables_bytes)


@attrs.define
class _Statistics:
    """The choice whether databases that are opened from now on keep statistics."""

    kept: bool = False


_STATISTICS = _Statistics()


def keep_statistics(kept: bool) -> None:
    """Have the databases of this process that are opened from now on keep statistics, or not."""
    _STATISTICS.kept = kept


def main_options() -> Options:
    """Settings of a database as a whole: those of a column family, and whether it counts."""
    options = database_options()
    if _STATISTICS.kept:
        options.enable_statistics()
    return options


def tickers(options: Options) -> dict[str, int]:
    """The counters of a database that was opened with these settings; empty if it keeps none."""
    lines = (line.split() for line in (options.get_statistics() or "").splitlines())
    found = {words[0]: int(words[-1]) for words in lines if words[1:3] == ["COUNT", ":"]}
    return {name: found[f"rocksdb.{name}"] for name in TICKERS if f"rocksdb.{name}" in found}


def memory_used() -> tuple[int, int]:
    """Bytes of the block cache and of the memtables of all databases of this process."""
    cache, memtables = _shared_memory()
    return cache.get_usage(), memtables.get_usage()


def database_options(chosen: RocksChoice | None = None) -> Options:
    """Settings of a database and of each column family: small, since a worker has many tasks.

    Args:
        chosen: what the column family's store has of its own.
    """
    own = chosen or RocksChoice()
    cache, memtables = _shared_memory()
    blocks = BlockBasedOptions()
    blocks.set_block_cache(cache)
    blocks.set_block_size(own.block_size)
    if own.bloom_bits:
        blocks.set_bloom_filter(own.bloom_bits, False)  # most reads of a new key find nothing
    blocks.set_format_version(5)
    blocks.set_cache_index_and_filter_blocks(True)  # else they lie outside the cache's bound
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(True)
    options = Options(raw_mode=True)
    if own.bloom_bits:
        options.set_memtable_whole_key_filtering(True)
        options.set_memtable_prefix_bloom_ratio(_FILTER_SHARE)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_block_based_table_factory(blocks)
    options.set_compression_type(getattr(DBCompressionType, own.compression)())
    options.set_write_buffer_manager(memtables)
    options.set_write_buffer_size(own.write_buffer_size)
    # What a memtable takes for its first rows. With 128 KiB a few dozen tasks, which have two
    # memtables or more each, are beyond the bound of all memtables, and each write flushes.
    options.set_arena_block_size(16 << 10)
    options.set_max_total_wal_size(_WAL_BYTES)  # else the small family keeps every log alive
    options.set_max_open_files(_OPEN_FILES)
    options.set_max_file_opening_threads(1)  # else 15 a family: a third of an opening's time
    options.set_max_background_jobs(_COMPACTIONS + _FLUSHES)
    options.set_keep_log_file_num(1)
    options.set_max_log_file_size(1 << 20)
    options.set_stats_dump_period_sec(0)
    options.set_manifest_preallocation_size(64 << 10)
    return options


def write_sorted(path: str, columns: Columns, chosen: RocksChoice | None) -> None:
    """Write rows as one sorted file, which a database can take over as it is.

    Between pieces of them other threads go on.
    """
    writer = SstFileWriter(database_options(chosen))
    writer.open(path)
    keys, values = sorted_rows(columns.keys, columns.values)
    for first in range(0, len(keys), PIECE_ROWS):
        put_items(writer, keys, values, first, first + PIECE_ROWS)
    writer.finish()
