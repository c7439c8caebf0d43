"""RocksDB's errors are told apart by its status, never by the names in a path."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from streamlet.errors import StateError, StateLockedError, TaskCorruptedError
from streamlet.state.backing import Columns
from streamlet.state.rocksdb import RocksEngine, read_meta
from streamlet.state.rocksdb_errors import state_error

#: Names of folders that stand in RocksDB's own texts, too.
NAMES = (
    "block-counter",
    "clock",
    "IO error: lock hold by current process",
    "NotFound-pages",
    "Corruption-reports",
    "Corruption: x",
    "No such file",
    "does not exist",
    "Column family not found",
    "file is too short",
)

#: Fills a disk, for which the limit of this process on the size of a file stands.
FILL = """
import os, resource, signal, sys
from pathlib import Path
from streamlet.errors import StateError
from streamlet.state.backing import Columns
from streamlet.state.rocksdb import RocksEngine

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
engines = [RocksEngine(Path(folder)) for folder in sys.argv[1:]]
for engine in engines:
    engine.use(("s",), b"m")
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
full = [Columns("s", [b"%d" % i for i in range(1_000)], [os.urandom(200)] * 1_000)]
for engine in engines:
    try:
        engine.write(full, b"m")
        print("no error")
    except StateError as error:
        print(type(error).__name__, "File too large" in str(error))
sys.stdout.flush()
os._exit(0)
"""

#: Opens stores with few file descriptors left, until one cannot be opened.
EXHAUST = """
import os, resource, sys
from pathlib import Path
from streamlet.errors import StateError
from streamlet.state.rocksdb import RocksEngine

for folder in sys.argv[1:]:
    for left in range(2, 7):
        used = len(os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + left, 4_096))
        try:
            RocksEngine(Path(folder)).close()
        except StateError as error:
            print(type(error).__name__, "Too many open files" in str(error))
        resource.setrlimit(resource.RLIMIT_NOFILE, (4_096, 4_096))
sys.stdout.flush()
os._exit(0)
"""


def said(code: str, folders: list[Path]) -> set[str]:
    """The distinct lines that a process prints that runs the code."""
    ran = subprocess.run(
        [sys.executable, "-c", code, *map(str, folders)], capture_output=True, check=True, text=True
    )
    return set(ran.stdout.splitlines())


def made(folder: Path) -> Path:
    """A database with one entry."""
    engine = RocksEngine(folder)
    engine.use(("s",), b"m")
    engine.write([Columns("s", [b"k"], [b"v"])], b"m")
    engine.close()
    return folder


def test_a_full_disk_is_a_full_disk_whatever_the_folder_is_called(tmp_path: Path) -> None:
    assert said(FILL, [tmp_path / name / "0_0" / "db" for name in NAMES]) == {"StateError True"}


def test_too_few_file_descriptors_are_no_damage_and_no_lock(tmp_path: Path) -> None:
    folders = [made(tmp_path / name / "db") for name in ("clock", "NotFound-x", "Corruption-x")]
    assert said(EXHAUST, folders) == {"StateError True"}


@pytest.mark.parametrize("name", NAMES)
def test_damage_and_locks_are_known_under_any_name(tmp_path: Path, name: str) -> None:
    folder = made(tmp_path / name / "db")
    engine = RocksEngine(folder)
    with pytest.raises(StateLockedError, match=f"is held by process {os.getpid()}"):
        RocksEngine(folder)
    assert read_meta(folder) == b"m"
    engine.close()
    next(folder.glob("*.sst")).unlink()
    with pytest.raises(TaskCorruptedError):
        RocksEngine(folder)
    (folder / "LOCK").unlink()
    (folder / "LOCK").mkdir()
    with pytest.raises(TaskCorruptedError, match="LOCK is not a file"):
        RocksEngine(folder)


#: Opens a database, says so, and holds it until its input ends.
HOLD = """
import sys
from pathlib import Path
from streamlet.state.rocksdb import RocksEngine
engine = RocksEngine(Path(sys.argv[1]))
print("open", flush=True)
sys.stdin.read()
"""


def test_another_process_that_holds_a_database_is_named(tmp_path: Path) -> None:
    folder = made(tmp_path / "db")
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        with pytest.raises(StateLockedError, match="is held by another process") as refused:
            RocksEngine(folder)
        assert f"is held by process {holder.pid} (" in refused.value.described()
        holder.communicate()


AGAIN = os.strerror(errno.EAGAIN)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("IO error: While lock file: {f}/LOCK: " + AGAIN, StateLockedError),
        (f"IO error: While lock file: {{f}}/LOCK: {os.strerror(errno.ENOLCK)}", StateError),
        ("IO error: No space left on device: While appending to file: {f}/1.log: x", StateError),
        ("IO error: No such file or directory: While opening: {f}/CURRENT: x", TaskCorruptedError),
        ("No such file or directory (os error 2)", TaskCorruptedError),
        ("Invalid argument: {f}: does not exist (create_if_missing is false)", TaskCorruptedError),
        ("Invalid argument: {f}: exists (error_if_exists is true)", StateError),
        ("Invalid argument: Column family not found: store.clock", TaskCorruptedError),
        (
            "Invalid argument: Found options incompatible with filesystem: "
            "IO error: While open a file for random read: {f}/CURRENT: Too many open files",
            StateError,
        ),
        (
            "Invalid argument: Found options incompatible with filesystem: "
            "Corruption: CURRENT file corrupted",
            TaskCorruptedError,
        ),
    ],
)
@pytest.mark.parametrize("name", ["db", "lock", "NotFound: x", "y: does not exist (now)"])
def test_the_status_decides(tmp_path: Path, name: str, text: str, kind: type[StateError]) -> None:
    folder = tmp_path / name
    assert type(state_error(folder, Exception(text.replace("{f}", str(folder))))) is kind


def test_a_sorted_file_takes_no_key_twice(tmp_path: Path) -> None:
    engine = RocksEngine(tmp_path)
    engine.use(["words"], b"")
    with pytest.raises(StateError, match="strict ascending order"):
        engine.bulk(Columns("words", [b"b", b"a", b"b"], [b"1", b"2", b"3"]))
    engine.close()
