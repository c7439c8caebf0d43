"""State that lay unused for long goes, but never one of the last copies."""

from __future__ import annotations

import os
from pathlib import Path

import attrs
import pytest

from streamlet.clock import ManualClock
from streamlet.control.values import MemberKey, MemberProgress, TaskProgress
from streamlet.control.view import ControlView
from streamlet.errors import StateError
from streamlet.state.directory import StateDirectory, TaskFolder
from streamlet.tasks.dormant import Cleanup, copies_elsewhere
from streamlet.types import TaskId

DELAY_MS = 600_000
T, OTHER = TaskId(0, 1), TaskId(0, 2)


def view(*copies: tuple[str, str, str]) -> ControlView:
    """What instances say of ``T``: instance, role, stage."""
    said = {
        MemberKey(one, n): MemberProgress(
            one, n, one, "", 0, tasks=(TaskProgress("0_1", role, stage),)
        )
        for n, (one, role, stage) in enumerate(copies)
    }
    return ControlView(progress=said)


@attrs.define
class Scene:
    directory: StateDirectory
    clock: ManualClock
    view: ControlView = attrs.field(factory=lambda: view(("b", "active", "running")))
    forgotten: list[TaskId] = attrs.field(factory=list)

    def cleanup(self, needed: int = 1) -> Cleanup:
        return Cleanup(
            self.directory,
            "a",
            delay_ms=DELAY_MS,
            needed=needed,
            view=lambda: self.view,
            forget=self.forgotten.append,
            clock=self.clock,
        )

    def use(self, task: TaskId) -> None:
        """Somebody works with the stores now."""
        with self.directory.lock_task(task) as lock:
            (lock.folder / "db").mkdir(exist_ok=True)
            (lock.folder / "db" / "000001.log").write_bytes(b"state")
        self.touch(task)

    def touch(self, task: TaskId, name: str = "db/000001.log") -> None:
        """Let files be as old as the clock has it."""
        ns = self.clock.wall_ms() * 1_000_000
        for file in (name, "task.lock"):
            path = self.directory.path / str(task) / file
            if path.exists():
                os.utime(path, ns=(ns, ns))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    made = Scene(StateDirectory(tmp_path, "words"), ManualClock(10_000_000))
    made.use(T)
    return made


def test_it_goes_when_it_was_dormant_for_the_whole_delay(scene: Scene) -> None:
    cleanup = scene.cleanup()
    assert cleanup.look() == []
    scene.clock.advance(DELAY_MS - 1)
    assert cleanup.look() == []
    scene.clock.advance(1)
    assert cleanup.look() == [T]
    assert (scene.directory.tasks(), scene.forgotten) == ([], [T])


def test_old_files_of_a_restart_are_waited_for_too(scene: Scene) -> None:
    """A machine was down for hours: its tasks may come back to it at any moment."""
    scene.clock.advance(10 * DELAY_MS)
    cleanup = scene.cleanup()
    assert cleanup.look() == []
    scene.clock.advance(DELAY_MS)
    assert cleanup.look() == [T]


def test_a_use_begins_the_delay_anew(scene: Scene) -> None:
    cleanup = scene.cleanup()
    cleanup.look()
    scene.clock.advance(DELAY_MS - 1)
    scene.use(T)
    scene.clock.advance(1)
    assert cleanup.look() == []
    scene.clock.advance(DELAY_MS - 1)
    assert cleanup.look() == []
    scene.clock.advance(1)
    assert cleanup.look() == [T]


def test_what_somebody_holds_stays(scene: Scene) -> None:
    cleanup = scene.cleanup()
    with scene.directory.lock_task(T):
        scene.touch(T)
        for _ in range(3):
            assert cleanup.look() == []
            scene.clock.advance(DELAY_MS)
    scene.touch(T)
    assert cleanup.look() == []
    scene.clock.advance(DELAY_MS)
    assert cleanup.look() == [T]


@pytest.mark.parametrize(
    ("copies", "needed", "goes"),
    [
        ((), 1, False),
        ((("b", "active", "running"),), 1, True),
        ((("a", "active", "running"),), 1, False),
        ((("b", "active", "restoring"),), 1, False),
        ((("b", "standby", "learning"),), 1, False),
        ((("b", "active", "running"),), 2, False),
        ((("b", "active", "running"), ("b", "standby", "ready")), 2, False),
        ((("b", "active", "running"), ("c", "standby", "ready")), 2, True),
        ((("b", "pending", "waiting"), ("c", "released", "released")), 1, False),
    ],
)
def test_it_stays_while_others_have_too_few_copies(
    scene: Scene, copies: tuple[tuple[str, str, str], ...], needed: int, goes: bool
) -> None:
    scene.view = view(*copies)
    cleanup = scene.cleanup(needed)
    cleanup.look()
    scene.clock.advance(DELAY_MS)
    assert cleanup.look() == ([T] if goes else [])
    assert copies_elsewhere(scene.view, OTHER, "a") == 0


def test_what_was_used_since_it_was_found_is_not_deleted(scene: Scene) -> None:
    (found,) = scene.directory.tasks()
    scene.clock.advance(1)
    scene.use(T)
    assert not scene.directory.clean(found)
    (found,) = scene.directory.tasks()
    with scene.directory.lock_task(T):
        assert not scene.directory.clean(found)
    assert scene.directory.clean(found)


def test_to_read_what_is_in_it_is_no_use(scene: Scene) -> None:
    (before,) = scene.directory.tasks()
    (before.path / "db" / "rocksdict-config.json").write_text("{}")
    assert scene.directory.tasks()[0].used_ms == before.used_ms


def test_it_looks_by_itself_until_it_is_closed(scene: Scene) -> None:
    cleanup = Cleanup(
        scene.directory,
        "a",
        delay_ms=1,
        needed=1,
        view=lambda: scene.view,
        forget=scene.forgotten.append,
        clock=scene.clock,
    )
    cleanup.look()
    scene.clock.advance(1)
    cleanup.start()
    while not scene.forgotten:
        cleanup._thread.join(0.01)
    cleanup.close()
    assert scene.directory.tasks() == []


def test_a_folder_that_cannot_be_deleted_keeps_no_other(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scene.use(OTHER)
    scene.view = ControlView(
        progress={
            MemberKey("b", 0): MemberProgress(
                "b",
                0,
                "b",
                "",
                0,
                tasks=tuple(TaskProgress(str(one), "active", "running") for one in (T, OTHER)),
            )
        }
    )
    clean = StateDirectory.clean

    def refusing(directory: StateDirectory, found: TaskFolder) -> bool:
        if found.task == T:
            raise StateError("cannot use 0_1: it is busy")
        return clean(directory, found)

    monkeypatch.setattr(StateDirectory, "clean", refusing)
    cleanup = scene.cleanup()
    cleanup.look()
    scene.clock.advance(DELAY_MS)
    assert cleanup.look() == [OTHER]
    assert "0_1: it is busy" in caplog.text
    monkeypatch.undo()
    assert cleanup.look() == [T]
