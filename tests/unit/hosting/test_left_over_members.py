"""What an application has on this host besides workers, where others have written there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from streamlet.admin.window import GroupWindow
from streamlet.config import Settings
from streamlet.hosting import preparing
from streamlet.state.directory import INSTANCE_LOCK, StateDirectory
from tests.unit.tasks.owners import counting


@pytest.mark.parametrize(
    ("noted", "looked_for"), [("many", 0), (None, 0), (-3, 0), ([2], 0), (2, 2), (10**9, 1_000)]
)
def test_members_of_an_earlier_run_are_a_number_that_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noted: object, looked_for: int
) -> None:
    """The file of the lock is any JSON."""
    file = tmp_path / "app" / INSTANCE_LOCK
    file.parent.mkdir()
    file.write_text(json.dumps({"process_id": "p", "instance_id": "a", "members": noted}))
    found: list[str] = []

    def remove(
        _: GroupWindow, now: Sequence[str], process_id: str, static: str | None, ids: Sequence[str]
    ) -> dict[str, str | None]:
        found.extend(ids)
        return {}

    monkeypatch.setattr(preparing, "remove_left_over", remove)
    process_id, lock = StateDirectory(tmp_path, "app").lock_instance()
    settings = Settings.load({"bootstrap.servers": "127.0.0.1:1"})
    preparing.clear_left_over(counting(), settings, process_id, lock, 1)
    assert found == [f"a-{number}" for number in range(looked_for)]
    assert (lock.fields["instance_id"], lock.fields["members"]) == ("", 1)
    lock.release()
