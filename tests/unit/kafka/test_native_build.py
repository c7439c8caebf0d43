"""The extension is built where it can be; a machine without a compiler gets a wheel without it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from streamlet.kafka.native import sources

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def hook() -> ModuleType:
    """The module that hatchling loads, by its path."""
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def linked(folder: Path) -> Path:
    """Stands for a compiler."""
    (folder / "_native.abi3.so").write_bytes(b"linked")
    return folder / "_native.abi3.so"


def built(
    hook: ModuleType, root: Path, version: str = "standard"
) -> tuple[Any, dict[str, Any], list[str]]:
    """The hook once it has run, what a wheel gets, and what is said."""
    said: list[str] = []
    app: Any = SimpleNamespace(display_warning=said.append)
    one = hook.NativeExtension(str(root), {}, None, None, str(root / "dist"), "wheel", app)
    data: dict[str, Any] = {"pure_python": True, "force_include": {}}
    one.initialize(version, data)
    return one, data, said


def test_without_a_compiler_the_wheel_is_one_of_python_alone(
    hook: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", str(tmp_path / "no-compiler"))
    _, data, (said,) = built(hook, tmp_path)
    assert data == {"pure_python": True, "force_include": {}}
    assert said.startswith("streamlet goes without its extension: ")


def test_with_one_the_wheel_serves_all_pythons_from_the_oldest_on(
    hook: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hook, "build", linked)
    one, data, said = built(hook, tmp_path)
    ((there, inside),) = data["force_include"].items()
    assert (Path(there).read_bytes(), said) == (b"linked", [])
    assert inside == "streamlet/kafka/native/_native.abi3.so"
    assert data["pure_python"] is False
    assert data["tag"].startswith("cp311-abi3-") or hook._FREE_THREADED
    assert not [*tmp_path.iterdir()], "sources may be in a folder that nobody may write to"
    one.finalize("standard", data, "")
    assert not Path(there).exists()


def test_an_editable_installation_keeps_it_beside_its_sources_if_it_may(
    hook: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hook, "build", linked)
    monkeypatch.setattr(hook, "_ROOM", tmp_path)
    one, data, said = built(hook, tmp_path, "editable")
    one.finalize("editable", data, "")
    assert ([one.name for one in tmp_path.iterdir()], said) == (["_native.abi3.so"], [])
    assert (data["pure_python"], data["force_include"]) == (False, {})
    monkeypatch.setattr(hook, "_ROOM", tmp_path / "gone")
    _, data, (said_then,) = built(hook, tmp_path, "editable")
    assert data == {"pure_python": True, "force_include": {}}
    assert said_then.startswith("streamlet goes without its extension: ")


def test_a_wheel_of_macos_is_for_the_oldest_system_that_it_was_compiled_for(
    hook: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = SimpleNamespace(interpreter="cp314", abi="cp314", platform="macosx_26_0_arm64")
    monkeypatch.setattr(hook, "sys_tags", lambda: [here])
    monkeypatch.setattr(hook, "sys", SimpleNamespace(platform="darwin"))
    monkeypatch.setattr(hook.sysconfig, "get_platform", lambda: "macosx-11.0-arm64")
    assert hook._tag().endswith("-macosx_11_0_arm64")


def test_another_python_gets_a_wheel_of_python_alone(
    hook: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hook, "build", linked)
    monkeypatch.setattr(hook, "_HAS_INTERFACE", False)
    _, data, said = built(hook, tmp_path)
    assert (data, said) == ({"pure_python": True, "force_include": {}}, [])


def test_a_build_has_the_digest_of_what_it_is_built_of(tmp_path: Path) -> None:
    assert sources.digest(tmp_path) == ""
    (tmp_path / "one.c").write_bytes(b"int one;")
    found = {sources.digest(tmp_path)}
    (tmp_path / "notes.txt").write_bytes(b"no source")
    found.add(sources.digest(tmp_path))
    assert len(found) == 1
    (tmp_path / "one.c").write_bytes(b"int two;")
    found.add(sources.digest(tmp_path))
    (tmp_path / "one.c").rename(tmp_path / "one.h")
    found.add(sources.digest(tmp_path))
    assert len(found) == 3
    assert sources.digest() == sources.digest(ROOT / "streamlet/kafka/native/extension") != ""
