"""The extension is built where it can be; a machine without a compiler gets a wheel without it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

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


def built(hook: ModuleType, root: Path) -> tuple[dict[str, Any], list[str]]:
    """What a wheel gets, and what is said."""
    said: list[str] = []
    app: Any = SimpleNamespace(display_warning=said.append)
    one = hook.NativeExtension(str(root), {}, None, None, str(root / "dist"), "wheel", app)
    data: dict[str, Any] = {"pure_python": True, "force_include": {}}
    one.initialize("standard", data)
    return data, said


def test_without_a_compiler_the_wheel_is_one_of_python_alone(
    hook: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", str(tmp_path / "no-compiler"))
    data, (said,) = built(hook, tmp_path)
    assert data == {"pure_python": True, "force_include": {}}
    assert said.startswith("streamlet goes without its extension: ")


def test_with_one_the_wheel_serves_all_pythons_from_the_oldest_on(
    hook: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(folder: Path) -> Path:
        (folder / "_native.abi3.so").write_bytes(b"linked")
        return folder / "_native.abi3.so"

    monkeypatch.setattr(hook, "build", build)
    data, said = built(hook, tmp_path)
    ((there, inside),) = data["force_include"].items()
    assert (Path(there).read_bytes(), said) == (b"linked", [])
    assert inside == "streamlet/kafka/native/_native.abi3.so"
    assert data["pure_python"] is False
    assert data["tag"].startswith("cp311-abi3-") or hook._FREE_THREADED
