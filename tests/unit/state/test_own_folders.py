"""State folders and locks are the user's alone, and a lock of another user's process is named.

Another user is made by a process that is not what owns the files: where the tests run as root, by a
child that becomes another one, else by pretending.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import streamlet as sl
from streamlet.broker import storage
from streamlet.config import Settings
from streamlet.errors import StateError, StateFolderError, StateLockedError
from streamlet.own_files import user_folder
from streamlet.state.directory import INSTANCE_LOCK, StateDirectory, fields_of, holder_of
from streamlet.state.instances import instances
from streamlet.state.task_state import TaskState
from streamlet.types import TaskId
from tests.unit.state.support import Spec

T = TaskId(0, 3)
NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")


@pytest.fixture
def directory(tmp_path: Path) -> StateDirectory:
    return StateDirectory(tmp_path / "state", "app")


def rights(path: Path) -> str:
    return stat.filemode(path.lstat().st_mode)


def others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all files of now belong to another user than this process."""
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)


def test_all_that_is_made_is_the_users_alone(directory: StateDirectory) -> None:
    before = os.umask(0)
    try:
        _, lock = directory.lock_instance()
        task = directory.lock_task(T)
        TaskState(task.folder, [Spec("s")], 1 << 20).close()
    finally:
        os.umask(before)
    folders = (directory.path.parent, directory.path, task.folder, task.folder / "db")
    assert {rights(folder) for folder in folders} == {"drwx------"}
    files = (directory.path / INSTANCE_LOCK, task.folder / "task.lock")
    assert {rights(file) for file in files} == {"-rw-------"}
    task.release()
    lock.release()


def test_rights_that_others_had_are_taken_and_a_root_of_anyone_is_left_as_it_is(
    directory: StateDirectory,
) -> None:
    """As made by an earlier version, below the root of a volume that a group may write."""
    folder = directory.path / "0_3"
    folder.mkdir(parents=True)
    root = directory.path.parent
    root.chmod(0o2775)
    for path in (directory.path, folder):
        path.chmod(0o755)
    for file in (directory.path / INSTANCE_LOCK, folder / "task.lock"):
        file.write_text("{}")
        file.chmod(0o644)
    _, lock = directory.lock_instance()
    directory.lock_task(T).release()
    lock.release()
    assert [rights(path) for path in (root, directory.path, folder)] == [
        "drwxrwsr-x",
        "drwx------",
        "drwx------",
    ]
    assert rights(folder / "task.lock") == rights(directory.path / INSTANCE_LOCK) == "-rw-------"


def test_a_folder_of_another_user_is_refused_with_the_way_out(
    directory: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, lock = directory.lock_instance()
    task = directory.lock_task(T)
    TaskState(task.folder, [Spec("s")], 1 << 20).close()
    task.release()
    lock.release()
    others(monkeypatch)
    said = rf"it belongs to user .*, and this is user .*chown -R \d+ {directory.path}"
    with pytest.raises(StateFolderError, match=f"{said}; name a folder .*--state-dir") as refused:
        directory.lock_instance()
    assert refused.value.exit_code == 2
    with pytest.raises(StateError, match=f"{said}/0_3"):
        directory.lock_task(T)
    with pytest.raises(StateError, match=f"{said}/0_3/db"):
        TaskState(task.folder, [Spec("s")], 1 << 20)


def test_a_lock_of_another_user_is_refused(
    directory: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory.path.mkdir(parents=True)
    file = directory.path / INSTANCE_LOCK
    file.write_text('{"pid": 1}')
    theirs = file.stat()
    stat_of = os.fstat
    monkeypatch.setattr(
        os,
        "fstat",
        lambda fd: (
            os.stat_result((*theirs[:4], theirs.st_uid + 1, *theirs[5:]))
            if os.path.samestat(stat_of(fd), theirs)
            else stat_of(fd)
        ),
    )
    with pytest.raises(StateFolderError, match=rf"{INSTANCE_LOCK}: it belongs to user"):
        directory.lock_instance()


def test_no_link_is_followed(directory: StateDirectory, tmp_path: Path) -> None:
    """It would have a file elsewhere overwritten."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text('{"name": "precious", "pid": 5}')
    for file in (directory.path / INSTANCE_LOCK, directory.path / "0_3" / "task.lock"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(elsewhere)
    with pytest.raises(StateFolderError, match="it is a symbolic link"):
        directory.lock_instance()
    with pytest.raises(StateError, match="it is a symbolic link"):
        directory.lock_task(T)
    assert elsewhere.read_text() == '{"name": "precious", "pid": 5}'
    assert fields_of(directory.path / INSTANCE_LOCK) == {}
    (found,) = directory.tasks()
    assert found.holder == 0


def test_a_folder_that_a_link_leads_to_is_not_cleaned(
    directory: StateDirectory, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere" / "db").mkdir(parents=True)
    directory.path.mkdir(parents=True)
    (directory.path / str(T)).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateError, match="it is a symbolic link"):
        directory.lock_task(T)
    with pytest.raises(StateError, match="it is a symbolic link"):
        directory.clean(*directory.tasks())
    assert [*(tmp_path / "elsewhere").iterdir()] == [tmp_path / "elsewhere" / "db"]


def test_a_folder_that_cannot_be_looked_into_is_named(directory: StateDirectory) -> None:
    directory.path.mkdir(parents=True)
    (directory.path / "0_7").symlink_to(directory.path / "0_7")
    with pytest.raises(StateError, match=f"cannot use {directory.path}/0_7: Too many levels"):
        directory.tasks()


def test_a_pipe_in_place_of_a_lock_holds_nobody_up(directory: StateDirectory) -> None:
    directory.path.mkdir(parents=True)
    os.mkfifo(directory.path / INSTANCE_LOCK)
    assert fields_of(directory.path / INSTANCE_LOCK) == {}
    with pytest.raises(StateFolderError, match="it is not a file"):
        directory.lock_instance()


@pytest.mark.parametrize(
    "raw",
    ["[" * 4000, '{"pid": "abc"}', '{"pid": null}', "\0\1\2", '{"name": ["x"], "tasks": "many"}'],
)
def test_a_damaged_lock_is_taken_and_listed(directory: StateDirectory, raw: str) -> None:
    directory.path.mkdir(parents=True)
    file = directory.path / INSTANCE_LOCK
    file.write_text(raw)
    with open(file) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        (found,) = instances(directory.path.parent)
        assert found.pid == 0
        with pytest.raises(StateLockedError, match="is held by"):
            directory.lock_instance()
    _, lock = directory.lock_instance()
    lock.release()


@pytest.mark.parametrize("given", ['"../x"', '"\\ud800"', '"' + "a" * 3000 + '"', "[]", '""'])
def test_an_id_that_other_members_could_not_read_is_replaced(
    directory: StateDirectory, given: str
) -> None:
    directory.path.mkdir(parents=True)
    (directory.path / INSTANCE_LOCK).write_text(f'{{"process_id": {given}}}')
    found, lock = directory.lock_instance()
    lock.release()
    assert re.fullmatch("[0-9a-f]{32}", found)
    again, lock = directory.lock_instance()
    lock.release()
    assert again == found


#: Takes a lock as another user and says so.
HOLD = """
import fcntl, os, sys
held = os.open(sys.argv[1], os.O_RDWR)
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
fcntl.flock(held, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""

#: Asks for the holder as another user, who cannot see what that has open.
ASK = """
import os, sys
from pathlib import Path
from streamlet.state.lock_holders import holder_text
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
print(holder_text(Path(sys.argv[1]), 999999999))
"""


@as_root
def test_a_process_of_another_user_that_holds_a_lock_is_named(directory: StateDirectory) -> None:
    _, lock = directory.lock_instance()
    lock.release()
    file = directory.path / INSTANCE_LOCK
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StateLockedError, match=rf"process {holder.pid} of user nobody \(.*py"):
            directory.lock_instance()


@as_root
def test_a_lock_that_another_user_may_not_look_into_is_named_by_the_system(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    file.touch()
    for folder in (tmp_path, *tmp_path.parents):
        folder.chmod(folder.stat().st_mode | 0o055)
    with open(file) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = subprocess.run(
            [sys.executable, "-c", ASK, str(file)], capture_output=True, text=True, check=True
        )
    assert done.stdout.startswith(f"process {os.getpid()} of user root"), done


@as_root
def test_what_another_user_may_not_see_counts_as_held(directory: StateDirectory) -> None:
    directory.lock_task(T).release()
    child = os.fork()
    if child == 0:
        held: int | None = None
        try:
            os.chmod(directory.path.parent, 0o755)
            os.chmod(directory.path, 0o755)
            os.chmod(directory.path / "0_3", 0o755)
            os.setgroups([])
            os.setuid(NOBODY)
            held = holder_of(directory.path / "0_3" / "task.lock")
        finally:
            os._exit(0 if held == 0 else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) in (0,)


def test_settings_of_a_broker_are_the_users_alone(tmp_path: Path) -> None:
    """They may have passwords in them."""
    logs = tmp_path / "data" / "logs"
    logs.mkdir(parents=True)
    (logs / "meta.properties").write_text("")
    logs.chmod(0o755)
    storage.format_storage(logs, 1, "id")
    file = tmp_path / "data" / "server.properties"
    storage.write_settings(file, logs, 1, 1, storage.Cluster((2,), {"sasl.jaas.config": "x"}))
    assert (rights(logs), rights(file)) == ("drwx------", "-rw-------")


@pytest.mark.parametrize("kind", ["fifo", "folder", "socket", "link to itself", "link to nothing"])
def test_a_lock_that_is_no_file_is_refused_by_name_and_hides_no_other_instance(
    directory: StateDirectory, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = directory.path / INSTANCE_LOCK
    lock.parent.mkdir(parents=True)
    monkeypatch.chdir(lock.parent)
    with socket.socket(socket.AF_UNIX) as listening:
        match kind:
            case "fifo":
                os.mkfifo(lock)
            case "folder":
                lock.mkdir()
            case "socket":
                listening.bind(lock.name)  # a path of a socket has at most 107 bytes
            case "link to itself":
                lock.symlink_to(lock)
            case _:
                lock.symlink_to(lock.with_name("none"))
        other = StateDirectory(directory.path.parent, "other")
        _, held = other.lock_instance()
        found = {one.application: one.pid for one in instances(directory.path.parent)}
        assert found["other"] == os.getpid()
        assert found.get("app", 0) == 0, "it cannot be seen who holds it"
        with pytest.raises(StateFolderError, match=INSTANCE_LOCK):
            directory.lock_instance()
        held.release()


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without a home, as that of a service, or a number that the system does not know."""
    for name in ("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def unknown(number: int) -> None:
        raise KeyError(number)

    monkeypatch.setattr("pwd.getpwuid", unknown)


@pytest.mark.usefixtures("homeless")
def test_a_user_without_a_home_has_what_it_has_where_the_root_is_one() -> None:
    """An application can be made, and run with a folder that is named; else that is refused."""
    assert Settings.load().state_dir == Path("/.local/share/streamlet")
    assert Settings.load({"state.dir": "/data"}).state_dir == Path("/data")
    assert sl.App("words").load_settings().state_dir == Path("/.local/share/streamlet")
    assert user_folder("state") == Path("/.local/state/streamlet")
    assert user_folder("cache") == Path("/.cache/streamlet")
