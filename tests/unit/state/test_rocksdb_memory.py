"""The memory of all databases of a process is bounded together, open ones included."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
from rocksdict import Rdict

from streamlet.state import rocksdb_options
from streamlet.state.backing import Columns
from streamlet.state.rocksdb import RocksEngine
from streamlet.state.rocksdb_options import (
    TICKERS,
    bound_memory,
    database_options,
    keep_statistics,
    memory_used,
)

MB = 1 << 20


@pytest.fixture(autouse=True)
def _settings_of_others() -> Iterator[None]:
    yield
    keep_statistics(False)
    bound_memory(rocksdb_options._BLOCK_CACHE_BYTES, rocksdb_options._MEMTABLE_BYTES)


def test_databases_that_are_open_keep_to_a_new_bound(tmp_path: Path) -> None:
    """In a process of its own: databases that others have left open hold blocks too."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        process.submit(keep_to_a_new_bound, tmp_path).result()


def keep_to_a_new_bound(folder: Path) -> None:
    """Fill open databases before and after the bound is lowered."""
    bound_memory(8 * MB, 64 * MB)
    databases = [Rdict(str(folder / str(n)), database_options()) for n in range(3)]
    try:
        for number, database in enumerate(databases):
            for row in range(3_000):
                database[b"%d-%d" % (number, row)] = b"x" * 1_000
        _, memtables = memory_used()
        assert memtables > 8 * MB  # three of 3 MB: no bound was reached
        bound_memory(1 * MB, 4 * MB)
        for database in databases:
            for row in range(3_000):
                database[b"more-%d" % row] = b"x" * 1_000
            database.flush()
            for row in range(0, 3_000, 2):
                assert database[b"more-%d" % row] == b"x" * 1_000
        blocks, memtables = memory_used()
        assert memtables < 8 * MB
        assert blocks < 3 * MB
    finally:
        for database in databases:
            database.close()


def opened(folder: Path) -> RocksEngine:
    engine = RocksEngine(folder)
    engine.use(["words"], b"")
    return engine


def test_hundreds_of_tasks_with_a_few_rows_are_below_the_bound(tmp_path: Path) -> None:
    before = memory_used()[1]
    engine = opened(tmp_path)
    for commit in range(6):
        keys = [b"%d-%d" % (commit, row) for row in range(40)]
        engine.write([Columns("words", keys, [b"123456789"] * 40)], b"meta" * 75)
    each = memory_used()[1] - before
    engine.close()
    assert 0 < 256 * each < rocksdb_options._MEMTABLE_BYTES * 7 // 8  # from there on writes flush


def test_what_is_larger_than_a_part_of_a_cache_stays_in_memory(tmp_path: Path) -> None:
    """It is read again from the block cache, which other databases may have filled."""
    large = bytes(range(256)) * 3_000
    engine = opened(tmp_path)
    engine.write([Columns("words", [b"a"], [large])], b"")
    engine.close()
    keep_statistics(True)
    engine = opened(tmp_path)
    store = engine.backing("words")
    assert store.get(b"a") == large
    before = store.figures()
    assert store.get(b"a") == large
    after = store.figures()
    engine.close()
    assert after["block.cache.data.hit"] == before["block.cache.data.hit"] + 1
    assert after["block.cache.data.miss"] == before["block.cache.data.miss"] >= 1


def test_a_database_that_keeps_statistics_tells_what_its_block_cache_had(tmp_path: Path) -> None:
    """The same blocks are misses first, then hits; one that keeps none tells nothing of them."""
    columns = Columns("s", [b"%05d" % row for row in range(5_000)], [b"x" * 100] * 5_000)
    for kept in (False, True):
        keep_statistics(kept)
        engine = RocksEngine(tmp_path / str(kept))
        engine.use(["s"], b"")
        engine.bulk(columns)
        store = engine.backing("s")
        before = store.figures()
        assert ("block.cache.data.miss" in before) is kept
        assert store.get_many(columns.keys) == store.get_many(columns.keys) == columns.values
        after = store.figures()
        engine.close()
        grown = {name: after[name] - before[name] for name in TICKERS if name in before}
    assert grown.keys() == set(TICKERS)
    assert grown["block.cache.data.hit"] >= grown["block.cache.data.miss"] > 0
    assert grown["memtable.miss"] == 10_000
