"""Brokers start from Java's own cache where there is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamlet.broker.aot_cache import cache_file, cache_options


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def java(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").touch()
    (home / "release").write_text(f'JAVA_VERSION="{version}"\n')
    return home / "bin" / "java"


def test_a_java_that_keeps_none_starts_without_options(tmp_path: Path) -> None:
    old = java(tmp_path, "24.0.1")
    assert cache_file(old, "kafka-4.1.1") is None
    assert cache_options(old, "kafka-4.1.1") == ()


def test_a_cache_is_used_once_it_is_there_by_that_java_and_for_those_jars(tmp_path: Path) -> None:
    new = java(tmp_path / "new", "25.0.2")
    file = cache_file(new, "kafka-4.1.1")
    assert file is not None
    assert cache_options(new, "kafka-4.1.1") == ()
    file.parent.mkdir(parents=True)
    file.touch()
    assert cache_options(new, "kafka-4.1.1") == (f"-XX:AOTCache={file}",)
    assert cache_options(new, "kafka-4.2.0") == ()
    assert cache_options(java(tmp_path / "newer", "26"), "kafka-4.1.1") == ()
