"""What is published works without this checkout: the sdist, and the wheel built of it."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*words: str | Path, cwd: Path) -> str:
    """What a command prints, which must end well."""
    done = subprocess.run(
        [str(word) for word in words], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist, built of this checkout and unpacked."""
    folder = tmp_path_factory.mktemp("sdist")
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder, cwd=ROOT)
    [archive] = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    archive.unlink()
    [unpacked] = folder.iterdir()
    return unpacked


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built of the sdist, as pip does where it has no wheel for a machine."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=sdist)
    [file] = folder.glob("*.whl")
    return file


def test_the_sdist_has_what_building_and_testing_need(sdist: Path) -> None:
    for name in (
        "PKG-INFO",
        "LICENSE",
        "Makefile",
        "hatch_build.py",
        "deploy/helm/streamlet/Chart.yaml",
        "docs/ARCHITECTURE.md",
        "streamlet/kafka/native/extension",
        "streamlet/state",
        "tests/conftest.py",
    ):
        assert (sdist / name).exists(), name
    assert not [*sdist.rglob("*.so")], "what this machine compiled is for no other"


def test_the_wheel_has_the_package_and_no_more(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/", 1)[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"streamlet"}
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert "streamlet/py.typed" in names
    assert "streamlet/tools/project/app.py.template" in names
    assert any(name.startswith("streamlet/broker/sums/") for name in names)
    assert not [name for name in names if name.endswith((".c", ".h", ".pyc"))]


def test_the_wheel_works_in_an_environment_of_its_own(wheel: Path, tmp_path: Path) -> None:
    """Its dependencies are this environment's, whose own streamlet is not seen from there."""
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / "bin" / "python"
    [site] = (tmp_path / "env").glob("lib/python*/site-packages")
    zipfile.ZipFile(wheel).extractall(site)
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"), "utf-8")
    found = run(python, "-c", "import streamlet; print(streamlet.__file__)", cwd=tmp_path)
    assert Path(found.strip()).is_relative_to(site)
    run(python, "-m", "streamlet", "new", "words", cwd=tmp_path)
    described = run(python, "-m", "streamlet", "describe", "words:app", cwd=tmp_path / "words")
    assert "words" in described
    version = run(python, "-m", "streamlet", "--version", cwd=tmp_path).strip()
    assert wheel.name.split("-")[1] == version
