"""Where files go when the home cannot be written."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from streamlet.broker.folders import writable
from streamlet.errors import BrokerError


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"streamlet-{os.getuid()}"


def test_a_folder_that_can_be_made_is_made(tmp_path: Path, temporary: Path) -> None:
    wanted = tmp_path / "home" / "cache"
    assert writable(wanted) == wanted
    assert wanted.is_dir()
    assert not temporary.exists()


def test_a_home_that_cannot_be_written_is_replaced(tmp_path: Path, temporary: Path) -> None:
    (tmp_path / "home").write_text("no folder, which no user can write into, not even root")
    for _ in range(2):
        assert writable(tmp_path / "home" / "cache") == temporary / "cache"
    assert temporary.stat().st_mode & 0o777 == 0o700


def test_a_link_that_another_user_laid_there_is_refused(tmp_path: Path, temporary: Path) -> None:
    (tmp_path / "home").write_text("")
    (tmp_path / "theirs").mkdir()
    temporary.symlink_to(tmp_path / "theirs")
    with pytest.raises(BrokerError, match="not a folder of this user"):
        writable(tmp_path / "home" / "cache")


def test_a_folder_of_another_user_is_not_used(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the home of the user who called sudo: what lies there would be run by root."""
    cache = tmp_path / "home" / "cache"
    cache.mkdir(parents=True)
    temporary.mkdir()
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    assert writable(cache) == temporary / "cache"
