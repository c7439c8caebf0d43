"""The layout of state on disk, and the locks of its folders.

    <state.dir>/<application>/instance.lock   the instance: process id (kept over restarts) and pid
                              0_3/            one task
                                  task.lock   held by the worker that has the task; names its pid
                                  db/         its stores
                              0_3.aside-…/    one whose stores the topology lacks (``rename``)

A lock is the kernel's (flock): it goes with its process however that ends, since children that
user code forks close it (``forks``). So a task moves between the workers of an instance without
copying, and a kill -9 leaves nothing to clean up. The file system must be a local one.

Folders from the application's on down and locks are the user's alone (``own_files``).
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import attrs

from streamlet.bounded import INT32_MAX
from streamlet.errors import StateError, StateFolderError, StateLockedError
from streamlet.forks import OwnDescriptor, no_fork
from streamlet.own_files import NotOwnError, make_own_folder, open_no_link, open_own_file
from streamlet.state.lock_holders import holder_text
from streamlet.state.meta import TaskMeta
from streamlet.state.rocksdb import read_meta
from streamlet.state.rocksdb_files import CLIENT_FILE, wipe_folder
from streamlet.types import TaskId

#: Name of the database's folder in a task's folder.
DATABASE = "db"
_TASK_LOCK = "task.lock"
#: Between a task and something unique, in the name of a folder that is no task's any more.
_ASIDE = ".aside-"
#: A wrong folder is not the reason for these.
_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
#: A process id as all members can read it.
_ID = re.compile(r"[0-9A-Za-z_.-]{1,100}")
#: Name of the file in an application's folder that its instance holds.
INSTANCE_LOCK = "instance.lock"


class FolderLock:
    """A folder held by this process until ``release``.

    Args:
        file: the lock's file in that folder; both are made if they are missing.
        what: what is locked, for the message.

    Raises:
        StateLockedError: a live process holds it; names its pid.
        StateError: folder or file belongs to another user, or cannot be written.
    """

    def __init__(self, file: Path, what: str) -> None:
        self.folder = file.parent
        _make(self.folder)
        with _naming(file):
            with no_fork():
                self._held = OwnDescriptor(_locked(file, what))
            #: What the file says, the holder's pid among it.
            self.fields: dict[str, str | int] = _fields(self._held.fd)
        try:
            self.set(pid=os.getpid())
        except StateError:
            self.release()
            raise

    def set(self, **fields: str | int) -> None:
        """Write fields into the lock's file.

        Raises:
            StateError: the file cannot be written.
        """
        merged = {**self.fields, **fields}
        raw = json.dumps(merged).encode()
        with _naming(self.folder):
            # In place: a new file would be another lock. In one piece, filled up with spaces where
            # more was there: a reader, or a killed writer, never leaves half of it.
            fd = self._held.fd
            os.pwrite(fd, raw.ljust(os.fstat(fd).st_size), 0)
        self.fields = merged

    def wipe(self) -> None:
        """Delete the stores of a locked, closed task.

        Raises:
            StateError: they cannot be deleted.
        """
        wipe_folder(self.folder / DATABASE)

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        if self._held.fd >= 0:
            with suppress(OSError):  # only notes since when it is free; it must be let go
                os.utime(self._held.fd)
            self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


@attrs.frozen
class TaskFolder:
    """A task's folder as it was found."""

    task: TaskId
    path: Path
    holder: int | None  # pid of the process that has it locked, 0 if unknown; None: dormant
    bytes: int
    modified_ms: int  # wall-clock time of the last write to the stores
    used_ms: int  # wall-clock time of that, or of the last process that had it and ended well

    @property
    def dormant_since_ms(self) -> int | None:
        """Wall-clock time since which no process has locked it; None while one has."""
        return self.used_ms if self.holder is None else None

    def contents(self) -> TaskMeta | None:
        """The contents of the stores as of the last write; None if there are none.

        Raises:
            TaskCorruptedError: the files are damaged, or hold the state of another partition.
        """
        raw = read_meta(self.path / DATABASE)
        if raw is None:
            return None
        meta = TaskMeta.from_bytes(raw, str(self.path))
        meta.check_partition(self.task.partition, str(self.path))
        return meta


class StateDirectory:
    """One application's state under ``state.dir``.

    Args:
        root: ``state.dir``.
        application: its name.
    """

    def __init__(self, root: Path, application: str) -> None:
        self.path = root / application

    def lock_instance(self) -> tuple[str, FolderLock]:
        """Take the folder for this instance, and its process id, which survives restarts.

        Raises:
            StateLockedError: another live instance of the application uses the same ``state.dir``.
            StateFolderError: the folder cannot be made or written.
            StateError: the disk is full.
        """
        try:
            lock = FolderLock(self.path / INSTANCE_LOCK, "state.dir")
        except StateLockedError as error:
            raise StateLockedError(
                f"{error.described()}; give each instance a --state-dir of its own"
            ) from None
        except StateError as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno in _DISK_FULL:
                raise
            raise StateFolderError(
                f"{error}; name a folder that this user can write by --state-dir, or by the "
                "setting state.dir"
            ) from error
        if not _ID.fullmatch(str(lock.fields.get("process_id", ""))):  # new, or damaged
            lock.set(process_id=uuid.uuid4().hex)
        return str(lock.fields["process_id"]), lock

    def lock_task(self, task: TaskId) -> FolderLock:
        """Take a task's folder for this worker.

        Raises:
            StateLockedError: another worker has it.
            StateError: the folder cannot be used.
        """
        return _lock_task(self.path / str(task), task)

    def lock_folder(self, found: TaskFolder) -> FolderLock:
        """Take a folder as it was found, whatever its name; raises as ``lock_task``."""
        return _lock_task(found.path, found.task)

    def tasks(self) -> list[TaskFolder]:
        """All task folders, by task.

        Raises:
            StateError: the folder cannot be read.
        """
        return [folder for folder in self.folders() if folder.path.name == str(folder.task)]

    def folders(self) -> list[TaskFolder]:
        """Like ``tasks``, with those that ``rename`` set aside or, interrupted, left behind."""
        found = []
        with _naming(self.path):
            names = os.listdir(self.path) if self.path.exists() else []
        for name in names:
            try:
                task = TaskId.parse(name.partition(_ASIDE)[0])
            except ValueError:
                continue
            with _naming(self.path / name), suppress(FileNotFoundError):  # deleted meanwhile
                found.append(_look_at(task, self.path / name))
        return sorted(found, key=lambda folder: folder.task)

    def rename(
        self, locks: Mapping[TaskId, FolderLock], aside: Mapping[FolderLock, TaskId]
    ) -> None:
        """Name locked folders after these tasks; no other folder keeps such a name.

        They may take each other's names, so each is set aside in between. Those of ``aside`` stay
        there, under the name of the task they were for and something unique.

        Raises:
            StateError: a folder cannot be renamed.
        """
        for lock, task in aside.items():
            self._set_aside(lock, task)
        between = {task: self._set_aside(lock, task) for task, lock in locks.items()}
        for task, folder in between.items():
            with _naming(folder):
                folder.rename(self.path / str(task))

    def _set_aside(self, lock: FolderLock, task: TaskId) -> Path:
        with _naming(lock.folder):
            return lock.folder.rename(self.path / f"{task}{_ASIDE}{uuid.uuid4().hex[:8]}")

    def clean(self, found: TaskFolder) -> bool:
        """Delete the folder of a task that lies dormant; False if it was used since it was found.

        Raises:
            StateError: it cannot be deleted.
        """
        try:
            lock = self.lock_folder(found)
        except StateLockedError:
            return False
        with lock:
            if _look_at(found.task, found.path).modified_ms != found.modified_ms:
                return False
            self.remove(lock)
        return True

    def remove(self, lock: FolderLock) -> None:
        """Delete the folder of a locked, closed task, and release the lock.

        Raises:
            StateError: it cannot be deleted.
        """
        lock.wipe()
        with _naming(lock.folder):
            # The lock's file goes last: without it another process could move in meanwhile.
            (lock.folder / _TASK_LOCK).unlink(missing_ok=True)
            lock.release()
            if not os.listdir(lock.folder):
                lock.folder.rmdir()


def _look_at(task: TaskId, path: Path) -> TaskFolder:
    database = path / DATABASE
    files: dict[str, os.stat_result] = {}
    if database.exists():
        with os.scandir(database) as entries:  # closed also when one has just been deleted
            files = {entry.name: entry.stat() for entry in entries}
    # To read what a database contains is no use of it, but this file is written then.
    times = [stat.st_mtime_ns for name, stat in files.items() if name != CLIENT_FILE]
    modified = max(times, default=path.stat().st_mtime_ns) // 1_000_000
    lock = path / _TASK_LOCK
    used = max(modified, lock.stat().st_mtime_ns // 1_000_000) if lock.exists() else modified
    size = sum(stat.st_size for stat in files.values())
    return TaskFolder(task, path, holder_of(lock), size, modified, used)


def _lock_task(folder: Path, task: TaskId) -> FolderLock:
    if folder.is_symlink():  # what it leads to may not be a task's, and would be deleted with it
        raise StateError(
            f"cannot use the folder {folder}: it is a symbolic link, which is not followed; "
            "delete it"
        )
    return FolderLock(folder / _TASK_LOCK, f"state of task {task}")


def holder_of(file: Path) -> int | None:
    """Pid of the process that holds a lock; None if none does, 0 if that cannot be seen.

    It is what the file says, which can be any number of a process: see ``lock_holders.holds``.
    """
    try:
        fd = open_no_link(file, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:  # no right to look, no file, or a dead disk
        return 0
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _pid_in(fd)
    finally:
        os.close(fd)
    return None


def _locked(file: Path, what: str) -> int:
    """A descriptor that holds the file's lock."""
    while True:
        fd = open_own_file(file, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.exists(file) and os.path.samestat(os.fstat(fd), os.lstat(file)):
                return fd
        except BlockingIOError:
            pid = _pid_in(fd) or None
            os.close(fd)
            raise _locked_by(file, what, pid) from None
        except OSError:
            os.close(fd)
            raise
        os.close(fd)  # the file was deleted between open and lock: the folder was removed


def _locked_by(file: Path, what: str, pid: int | None) -> StateLockedError:
    text = f"{what} in {file.parent} is held by"
    error = StateLockedError(f"{text} process {pid}" if pid else f"{text} another process")
    error.holder = lambda: f"{text} {holder_text(file, pid)}"
    return error


def fields_of(file: Path) -> dict[str, str | int]:
    """The fields in the file of a lock; empty if it cannot be read."""
    try:
        fd = open_no_link(file, os.O_RDONLY)
    except OSError:
        return {}
    try:
        return _fields(fd)
    finally:
        os.close(fd)


def _fields(fd: int) -> dict[str, str | int]:
    try:
        fields = json.loads(os.pread(fd, 4096, 0))
    except (ValueError, RecursionError):
        return {}  # new, or damaged
    if not isinstance(fields, dict):
        return {}
    return {name: value for name, value in fields.items() if isinstance(value, str | int)}


def number_in(fields: Mapping[str, str | int], name: str) -> int:
    """A number in the fields of a lock; 0 if there is none, or something else."""
    value = fields.get(name, 0)
    return value if isinstance(value, int) else 0


def _pid_in(fd: int) -> int:
    """The number of a process in a lock's file; 0 if there is none, or one that no process has."""
    pid = number_in(_fields(fd), "pid")
    return pid if 0 < pid <= INT32_MAX else 0


def _make(folder: Path) -> None:
    """Make a folder with those above it, for this user alone.

    Raises:
        StateError: naming the folder, and the one in which the next cannot be made; or the owner.
    """
    try:
        make_own_folder(folder)
    except NotOwnError as error:
        raise StateError(f"cannot use the folder {folder}: {error.strerror}") from error
    except OSError as error:
        reason = error.strerror or error
        there = next(path for path in folder.parents if os.path.exists(path))
        where = f"in {there}" if there.is_dir() else f"{there} is a file"
        raise StateError(f"cannot make the folder {folder}: {reason} ({where})") from error


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Make the system's errors ours, with the path."""
    try:
        yield
    except OSError as error:
        raise StateError(f"cannot use {path}: {error.strerror or error}") from error
