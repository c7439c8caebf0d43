"""A database with damaged files can always be closed and deleted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from streamlet.errors import StateError, TaskCorruptedError
from streamlet.state.backing import Columns
from streamlet.state.rocksdb import RocksEngine

ENTRIES = 2_000
#: So many files in level 0 and RocksDB compacts them, which reads the damaged blocks.
FLUSHES = 8


def entries() -> Columns:
    keys = [b"%05d" % i for i in range(ENTRIES)]
    return Columns("s", keys, [os.urandom(100) for _ in keys])


def opened(folder: Path) -> RocksEngine:
    """A database with one store."""
    engine = RocksEngine(folder)
    engine.use(["s"], engine.read_meta() or b"meta")
    return engine


def damaged(folder: Path) -> RocksEngine:
    """An open database whose largest table has a flipped bit in most blocks."""
    engine = opened(folder)
    for _ in range(2):
        engine.write([entries()], b"meta")
        engine._flush()
    engine.close()
    table = max(folder.glob("*.sst"), key=lambda path: path.stat().st_size)
    data = bytearray(table.read_bytes())
    for at in range(100, len(data) // 2, 1_000):
        data[at] ^= 1
    table.write_bytes(bytes(data))
    return opened(folder)


def break_it(engine: RocksEngine) -> None:
    """Write until the database has met the damage and takes nothing more."""
    with pytest.raises(TaskCorruptedError, match="Corruption"):
        write_often(engine)


def write_often(engine: RocksEngine) -> None:
    """Have RocksDB compact the tables."""
    for _ in range(FLUSHES * 10):
        engine.write([entries()], b"meta")
        engine._flush()


def test_a_database_that_takes_nothing_more_can_be_wiped_and_used_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = damaged(tmp_path)
    break_it(engine)
    engine.wipe()
    assert "closed without a flush" in caplog.text
    assert engine.backing("s").get(b"00001") is None
    engine.write([Columns("s", [b"a"], [b"1"])], b"new")
    engine.close()
    again = opened(tmp_path)
    assert (again.read_meta(), again.backing("s").get(b"a")) == (b"new", b"1")
    again.close()


def test_a_database_that_takes_nothing_more_is_closed_and_not_locked(tmp_path: Path) -> None:
    engine = damaged(tmp_path)
    break_it(engine)
    engine.close()
    RocksEngine(tmp_path).close()


def test_a_scan_over_a_damaged_block_is_an_error_of_ours(tmp_path: Path) -> None:
    engine = damaged(tmp_path)
    with pytest.raises(StateError, match="checksum mismatch"):
        list(engine.backing("s").scan(None, None))
    with pytest.raises(StateError, match="checksum mismatch"):
        list(engine.backing("s").scan(b"00000", b"01999"))
    engine.close()


def test_a_process_that_dies_while_it_makes_a_database_leaves_no_damage(tmp_path: Path) -> None:
    """RocksDB writes the manifest, then CURRENT, then the first log."""
    opened(tmp_path).close()
    (manifest,) = tmp_path.glob("MANIFEST-*")
    manifest.rename(tmp_path / "MANIFEST-000001")
    later = [file for file in tmp_path.iterdir() if file.name[:8] not in ("IDENTITY", "MANIFEST")]
    assert {"CURRENT", "LOCK"} <= {file.name for file in later}
    for file in later:
        file.unlink()
    engine = RocksEngine(tmp_path)
    assert engine.read_meta() is None
    engine.use(["s"], b"meta")
    engine.write([Columns("s", [b"k"], [b"v"])], b"more")
    engine.close()
    engine = opened(tmp_path)
    assert engine.read_meta() == b"more"
    assert list(engine.backing("s").scan(None, None)) == [(b"k", b"v")]
    engine.close()
