"""Workers that are added to a running instance, and removed from it, by others on its host."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import streamlet as sl
from streamlet.bounded import WORKERS_MAX
from streamlet.clock import SystemClock
from streamlet.errors import NotFoundError, RefusedError
from streamlet.hosting.supervisor import Supervisor
from streamlet.hosting.worker_count import FILE, change, forget, wanted
from streamlet.state.directory import INSTANCE_LOCK, FolderLock, StateDirectory
from streamlet.state.instances import InstanceFolder, InstanceRecord
from streamlet.tools.main import build
from tests.unit.hosting.test_supervisor import Events, launch


def test_workers_come_and_go_while_the_others_work_on() -> None:
    """The last one ends for good, also one that crashes at its end; its number is free then."""
    events, counts, asked = Events(), list[int](), list[int | None]([None])

    def react(member: int, event: dict[str, Any]) -> None:
        if "up" in event:
            asked[0] = {1: 3, 3: 1}.get(len(events.ups()), asked[0])
            if len(events.ups()) == 4:
                running.stop()
        if event.get("event") == "removed" and member == 1:
            asked[0] = 2

    events.react = react
    running = Supervisor(
        launch,
        {"members": 1, "silent_stop": None},
        1,
        clock=SystemClock(),
        on_event=events,
        wanted=lambda: asked[0],
        on_count=counts.append,
    )
    assert running.run() == 0
    assert counts == [3, 1, 2]
    ups = [member for member, event in events.seen if "up" in event]
    assert ups[0] == 0
    assert sorted(ups[1:3]) == [1, 2]
    assert ups[3] == 1
    removed = [member for member, event in events.seen if event.get("event") == "removed"]
    assert sorted(removed) == [1, 2]


@pytest.fixture
def instance(tmp_path: Path) -> Any:
    """An instance of this process with two workers: its record and its lock's file."""
    _, lock = StateDirectory(tmp_path, "flights").lock_instance()
    record = InstanceRecord(lock, "h1")
    record.say(workers=2)
    yield record, tmp_path / "flights" / INSTANCE_LOCK
    lock.release()


def test_what_is_asked_for_is_bounded_and_holds_for_one_run(instance: Any) -> None:
    record, file = instance
    folder = file.parent
    assert wanted(folder) is None
    assert change(InstanceFolder.read(file), 1) == 3 == wanted(folder)
    assert change(InstanceFolder.read(file), -2) == 1 == wanted(folder)
    with pytest.raises(RefusedError, match="without a worker; streamlet drain"):
        change(InstanceFolder.read(file), -1)
    with pytest.raises(RefusedError, match=f"at most {WORKERS_MAX}"):
        change(InstanceFolder.read(file), WORKERS_MAX)
    for text in (b"", b"0", b"-1", b"two", b"9" * 99, b"257", "\u0663".encode()):
        (folder / FILE).write_bytes(text)
        assert wanted(folder) is None
    forget(folder)
    os.symlink(file, folder / FILE)
    assert wanted(folder) is None
    with pytest.raises(RefusedError, match="symbolic link"):
        change(InstanceFolder.read(file), 1)
    record.say(workers=0)
    with pytest.raises(RefusedError, match="h1 has no workers that can be added"):
        change(InstanceFolder.read(file), 1)


def test_the_commands_and_the_program_ask_the_instance_and_wait_for_it(
    instance: Any, tmp_path: Path
) -> None:
    record, file = instance
    ended = threading.Event()

    def supervise() -> None:
        while not ended.wait(0.02):
            record.say(workers=wanted(file.parent) or 2)

    thread = threading.Thread(target=supervise)
    thread.start()
    try:
        for command, count in (("add", 3), ("remove", 2)):
            words = ["workers", command, "flights", "--state-dir", str(tmp_path), "--json"]
            found = CliRunner().invoke(build(), words)
            assert found.exit_code == 0, found.output
            told = {"application": "flights", "name": "h1", "workers": count}
            assert json.loads(found.stdout) == told
    finally:
        ended.set()
        thread.join()
    app = sl.App("flights", config={"state.dir": str(tmp_path)})
    assert (app.add_worker(), app.add_worker("h1"), app.remove_worker()) == (3, 4, 3)
    with pytest.raises(NotFoundError, match="called h2"):
        app.add_worker("h2")
    assert isinstance(record._lock, FolderLock)
