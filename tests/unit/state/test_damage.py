"""A database with damaged files can always be closed and deleted."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from streamlet.errors import StateError, TaskCorruptedError
from streamlet.state.backing import Columns
from streamlet.state.rocksdb import RocksEngine, read_meta
from streamlet.state.rocksdb_files import CLIENT_FILE, wipe_folder

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


def database(folder: Path) -> Path:
    """The folder of a closed database with one entry."""
    engine = opened(folder)
    engine.write([Columns("s", [b"a"], [b"1"])], b"meta")
    engine.close()
    return folder


def pipe(file: Path) -> None:
    """A pipe whose other end nobody opens."""
    file.unlink(missing_ok=True)
    os.mkfifo(file)


def endless(file: Path) -> None:
    """A link to a device that can be read without an end."""
    file.unlink(missing_ok=True)
    file.symlink_to("/dev/zero")


def folder_of(file: Path) -> None:
    """A folder in place of a file."""
    file.unlink(missing_ok=True)
    file.mkdir()


@pytest.mark.parametrize("name", ["CURRENT", "LOCK", "LOG", CLIENT_FILE, "bulk-1"])
@pytest.mark.parametrize("replace", [pipe, endless, folder_of])
def test_what_is_no_file_is_damage_and_not_waited_for(
    tmp_path: Path, replace: Callable[[Path], None], name: str
) -> None:
    folder = database(tmp_path / "db")
    replace(folder / name)
    for use in (RocksEngine, read_meta):
        with pytest.raises(TaskCorruptedError, match=f"{name} is not a file"):
            use(folder)
    wipe_folder(folder)
    opened(folder).close()


@pytest.mark.parametrize("replace", [pipe, Path.touch])
def test_what_is_no_folder_is_damage_and_deleted(
    tmp_path: Path, replace: Callable[[Path], None]
) -> None:
    folder = tmp_path / "db"
    replace(folder)
    with pytest.raises(TaskCorruptedError, match="it is not a folder"):
        RocksEngine(folder)
    wipe_folder(folder)
    opened(folder).close()


@pytest.mark.parametrize("name", ["CURRENT", "IDENTITY", "OPTIONS-*", CLIENT_FILE])
def test_a_file_that_is_read_as_a_whole_is_bounded(tmp_path: Path, name: str) -> None:
    folder = database(tmp_path / "db")
    file = next(folder.glob(name))
    os.truncate(file, 1 << 32)  # no bytes on the disk
    for use in (RocksEngine, read_meta):
        with pytest.raises(TaskCorruptedError, match=f"{file.name} has more than 16,777,216 bytes"):
            use(folder)
    wipe_folder(folder)
    opened(folder).close()


def test_a_name_of_the_manifest_that_no_file_has_is_damage(tmp_path: Path) -> None:
    folder = database(tmp_path / "db")
    (folder / "CURRENT").write_bytes(bytes(16))
    with pytest.raises(TaskCorruptedError, match="CURRENT"):
        RocksEngine(folder)


def test_entries_whose_positions_are_lost_are_damage(tmp_path: Path) -> None:
    """Restoring would begin at the start, and leave entries that were deleted since."""
    engine = RocksEngine(folder := tmp_path / "db")
    engine.use(["s"], b"meta")
    engine.write([Columns("s", [b"a"], [b"1"])], b"meta")
    del engine._db[b"task"]
    del engine._db[b"manifest"]
    engine._shut()
    with pytest.raises(TaskCorruptedError, match="it has entries, and no positions of them"):
        RocksEngine(folder)


@pytest.mark.parametrize("there", [True, False])
def test_a_database_that_a_link_leads_to_is_left_as_it_is(tmp_path: Path, there: bool) -> None:
    elsewhere, link = tmp_path / "elsewhere", tmp_path / "db"
    if there:
        database(elsewhere)
    link.symlink_to(elsewhere)
    for use in (RocksEngine, read_meta, wipe_folder):
        with pytest.raises(StateError, match="it is a symbolic link, which is not followed; del"):
            use(link)
    assert elsewhere.exists() == there
