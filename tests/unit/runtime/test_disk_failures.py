"""Whole workers, one of which cannot use its state folder for a while."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamlet.tasks import disk_failures
from tests.unit.runtime.members import PARTITIONS, Group, wait_for


def test_others_run_the_tasks_of_a_member_whose_disk_fails_until_it_can_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_failures, "TRY_MS", 50)
    folder = tmp_path / "a"
    folder.touch()  # no folder can be made there
    group = Group(tmp_path, state_dir=str(folder), task_timeout_ms="200")
    a = group.member("a")
    group.produce(1)
    wait_for(lambda: a.worker._activation.troubles.problems, "its tasks stand still")
    b = group.member("b")
    wait_for(lambda: len(b.running) == PARTITIONS, "the other one runs them all")
    wait_for(lambda: group.put_out == 40, "all is counted")
    folder.unlink()
    wait_for(lambda: group.shares() == [2, 2], "both have a share again")
    group.produce(1)
    wait_for(lambda: group.put_out == 80, "both count")
    group.end()
    assert [member.failed for member in group.members] == [None, None]
    assert set(map(tuple, group.counts().values())) == {(1, 2)}
