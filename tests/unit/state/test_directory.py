"""Who holds which part of the state folder, and what is said to the one who comes second."""

import errno
import fcntl
import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from streamlet.config import Settings
from streamlet.errors import StateError, StateFolderError, StateLockedError, TaskCorruptedError
from streamlet.state.directory import DATABASE, INSTANCE_LOCK, StateDirectory
from streamlet.state.task_state import TaskState
from streamlet.types import StateNumber, TaskId
from tests.unit.state.support import Spec, changelog

T = TaskId(0, 3)

HOLD = """
import sys
from pathlib import Path
from streamlet.state.directory import StateDirectory
from streamlet.types import TaskId
lock = StateDirectory(Path(sys.argv[1]), "app").lock_task(TaskId(0, 3))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def directory(tmp_path: Path) -> StateDirectory:
    return StateDirectory(tmp_path, "app")


def test_a_live_process_is_named_and_a_killed_one_leaves_nothing_behind(
    directory: StateDirectory, tmp_path: Path
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "held\n"
            with pytest.raises(
                StateLockedError, match=f"task 0_3 in .*held by process {child.pid}"
            ):
                directory.lock_task(T)
            (found,) = directory.tasks()
            assert found.holder == child.pid
        finally:
            child.send_signal(signal.SIGKILL)
    (found,) = directory.tasks()
    assert found.holder is None
    directory.lock_task(T).release()


def test_a_child_that_the_holder_forked_does_not_hold_the_lock(
    directory: StateDirectory, tmp_path: Path
) -> None:
    """As a process of a pool that a user's function made; its worker is killed."""
    forking = HOLD.replace(
        "print", "import os\nos.fork() or os.read(os.open(FIFO, os.O_RDONLY), 1)\nprint"
    )
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with subprocess.Popen(
        [sys.executable, "-c", forking.replace("FIFO", repr(str(fifo))), str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        let_go = os.open(fifo, os.O_WRONLY)  # once the child reads it
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        try:
            directory.lock_task(T).release()
        finally:
            os.close(let_go)


def test_a_holder_is_described_with_its_command_also_where_it_got_the_lock_from_another(
    directory: StateDirectory, tmp_path: Path
) -> None:
    """A child of C code, or of another version, closes nothing."""
    lock = directory.lock_task(T)
    with pytest.raises(StateLockedError) as refused:
        directory.lock_task(T)
    said = f"state of task 0_3 in {lock.folder} is held by process"
    assert str(refused.value) == f"{said} {os.getpid()}"
    assert refused.value.described().startswith(f"{said} {os.getpid()} (")
    lock.release()

    file = directory.path / "0_3" / "task.lock"
    file.write_text('{"pid": 999999999}')
    with open(file) as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        with subprocess.Popen(["sleep", "60"], pass_fds=(opened.fileno(),)) as sleeper:
            try:
                opened.close()
                with pytest.raises(StateLockedError) as refused:
                    directory.lock_task(T)
                assert refused.value.described() == (
                    f"{said} {sleeper.pid} (sleep 60), which has it from process 999999999 "
                    "that has ended"
                )
            finally:
                sleeper.kill()


def test_the_holder_is_seen_by_a_user_who_may_only_read(
    directory: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an operator who is not the user of the instance; the file's mode would not stop root."""

    def read_only(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_ACCMODE != os.O_RDONLY:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, flags, mode)

    with directory.lock_task(T):
        opened = os.open
        monkeypatch.setattr(os, "open", read_only)
        [found] = directory.tasks()
        assert found.holder == os.getpid()


def test_two_workers_of_one_process_do_not_share_a_task(directory: StateDirectory) -> None:
    with directory.lock_task(T), pytest.raises(StateLockedError, match=f"process {os.getpid()}"):
        directory.lock_task(T)
    directory.lock_task(T).release()


def test_the_process_id_survives_restarts_and_is_had_by_one_instance(
    directory: StateDirectory,
) -> None:
    first, lock = directory.lock_instance()
    with pytest.raises(StateLockedError, match=r"state\.dir .* a --state-dir of its own"):
        directory.lock_instance()
    lock.release()
    lock.release()
    again, lock = directory.lock_instance()
    lock.release()
    assert len(first) == 32
    assert again == first


def test_a_torn_lock_file_is_taken_for_a_new_one(directory: StateDirectory) -> None:
    first, lock = directory.lock_instance()
    lock.release()
    for torn in ('{"process_id": "4', "[]"):
        (directory.path / "instance.lock").write_text(torn)
        other, lock = directory.lock_instance()
        lock.release()
        assert other != first


def test_task_folders_are_listed_with_what_they_contain(directory: StateDirectory) -> None:
    assert directory.tasks() == []
    for task in (TaskId(1, 10), TaskId(0, 2), TaskId(1, 9)):
        directory.lock_task(task).release()
    (directory.path / "notes").mkdir()
    with directory.lock_task(T) as lock:
        state = TaskState(lock.folder, [Spec("s")], 1 << 20, {"s": changelog("s", 3)})
        state.stores["s"].put("a", 1)
        state.write(state.drain(), StateNumber(1, 1), {changelog("s", 3): 5})
        listed = {folder.task: folder for folder in directory.tasks()}
        assert [str(task) for task in listed] == ["0_2", "0_3", "1_9", "1_10"]
        assert listed[T].holder == os.getpid()
        assert listed[T].bytes > 0
        assert listed[T].modified_ms > 0
        contents = listed[T].contents()
        assert contents is not None
        assert (contents.state, contents.positions) == (StateNumber(1, 1), {changelog("s", 3): 5})
        assert listed[TaskId(0, 2)].contents() is None
        state.close()


def test_a_folder_that_is_deleted_while_they_are_listed_is_left_out(
    directory: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a worker that cleans up beside a command that looks."""
    directory.lock_task(TaskId(0, 1)).release()
    names = os.listdir(directory.path)
    monkeypatch.setattr(os, "listdir", lambda _: [*names, "0_2"])
    assert [found.task for found in directory.tasks()] == [TaskId(0, 1)]


def test_a_file_that_is_deleted_while_its_folder_is_looked_at_leaves_nothing_open(
    directory: StateDirectory,
) -> None:
    database = directory.path / "0_1" / DATABASE
    database.mkdir(parents=True)
    (database / "gone").symlink_to(database / "deleted")
    (database / "there").touch()
    assert directory.tasks() == []
    gc.collect()  # warns of what was left open, which fails the test


def test_wiping_keeps_the_lock_and_removing_gives_it_up(directory: StateDirectory) -> None:
    lock = directory.lock_task(T)
    TaskState(lock.folder, [Spec("s")], 1 << 20).close()
    lock.wipe()
    assert not (lock.folder / DATABASE).exists()
    with pytest.raises(StateLockedError):
        directory.lock_task(T)
    directory.remove(lock)
    assert directory.tasks() == []
    directory.lock_task(T).release()


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    directory = StateDirectory(tmp_path / "file", "app")
    with pytest.raises(StateError, match=r"file/app/0_3.*Not a directory"):
        directory.lock_task(T)
    advice = r"name a folder that this user can write by --state-dir"
    with pytest.raises(
        StateFolderError,
        match=rf"cannot make the folder {tmp_path}/file/app: Not a directory "
        rf"\({tmp_path}/file is a file\); {advice}",
    ) as refused:
        directory.lock_instance()
    assert refused.value.exit_code == 2
    (tmp_path / "other" / "app" / INSTANCE_LOCK).mkdir(parents=True)
    with pytest.raises(StateFolderError, match=rf"other/app/{INSTANCE_LOCK}: Is a dir.*; {advice}"):
        StateDirectory(tmp_path / "other", "app").lock_instance()
    with pytest.raises(StateError, match=r"file/x/db: Not a directory"):
        TaskState(tmp_path / "file" / "x", [Spec("s")], 1 << 20)


def test_a_full_disk_is_no_reason_for_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    message = (
        rf"cannot make the folder {tmp_path}/a/app: No space left on device \(in {tmp_path}\)$"
    )
    with pytest.raises(StateError, match=message) as failed:
        StateDirectory(tmp_path / "a", "app").lock_instance()
    assert failed.value.exit_code == 1


def test_a_damaged_dormant_task_says_so(directory: StateDirectory) -> None:
    with directory.lock_task(T) as lock:
        TaskState(lock.folder, [Spec("s")], 1 << 20).close()
        (lock.folder / DATABASE / "CURRENT").unlink()
    (found,) = directory.tasks()
    with pytest.raises(TaskCorruptedError, match="CURRENT"):
        found.contents()


def test_a_folder_is_dormant_from_when_it_was_let_go(tmp_path: Path) -> None:
    """Its files may be older: it was kept open and not written to."""
    directory = StateDirectory(tmp_path, "app")
    lock = directory.lock_task(T)
    for file in (lock.folder / "task.lock", lock.folder):
        os.utime(file, (1_000, 1_000))
    (held,) = directory.tasks()
    assert (held.dormant_since_ms, held.used_ms) == (None, 1_000_000)
    lock.release()
    (found,) = directory.tasks()
    assert found.dormant_since_ms is not None
    assert found.dormant_since_ms > 1_000_000
    assert found.modified_ms == 1_000_000


def test_the_folder_of_state_stays_where_a_program_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function that changed the working directory took the stores' files away under them."""
    monkeypatch.chdir(tmp_path)
    settings = Settings.load(values={"state.dir": "state"})
    monkeypatch.chdir("/")
    assert settings.state_dir == tmp_path / "state"
