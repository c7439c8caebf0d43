"""What is published works without this checkout: sdist, wheel, and a project begun with it."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pytest

from streamlet.broker.port import PortReservation
from tests.wheels import pack_installed

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY = "https://repository.example/owner/streamlet"
PATIENCE_S = 400
#: Of the processor, from an empty folder to a new project's first results: set-up, broker, counts.
FIRST_RESULTS_S = 60


def run(*words: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> str:
    """What a command prints, which must end well."""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist, built of this checkout and unpacked."""
    folder = tmp_path_factory.mktemp("sdist")
    build = sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder
    run(*build, cwd=ROOT, env={**os.environ, "STREAMLET_REPOSITORY": f"{REPOSITORY}/"})
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


def test_the_wheel_names_the_pages_of_the_repository_that_the_sdist_was_built_in(
    wheel: Path,
) -> None:
    packed = zipfile.ZipFile(wheel)
    [metadata] = [name for name in packed.namelist() if name.endswith(".dist-info/METADATA")]
    pages = {
        line.removeprefix("Project-URL: ")
        for line in packed.read(metadata).decode().splitlines()
        if line.startswith("Project-URL: ")
    }
    assert {f"Source, {REPOSITORY}", f"Issues, {REPOSITORY}/issues"} <= pages
    for page in pages:
        where = page.partition(f"{REPOSITORY}/blob/main/")[2]
        assert not where or (ROOT / where).is_file(), page


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the wheel alone.

    Its dependencies are this environment's, whose own streamlet is not seen from there.
    """
    folder = tmp_path_factory.mktemp("published") / "env"
    venv.create(folder, with_pip=False)
    [site] = folder.glob("lib/python*/site-packages")
    zipfile.ZipFile(wheel).extractall(site)
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"), "utf-8")
    return folder / "bin" / "python"


def test_the_wheel_works_in_an_environment_of_its_own(
    python: Path, wheel: Path, tmp_path: Path
) -> None:
    found = run(python, "-c", "import streamlet; print(streamlet.__file__)", cwd=tmp_path)
    assert Path(found.strip()).is_relative_to(python.parents[1])
    run(python, "-m", "streamlet", "new", "words", cwd=tmp_path)
    described = run(python, "-m", "streamlet", "describe", "words:app", cwd=tmp_path / "words")
    assert "words" in described
    version = run(python, "-m", "streamlet", "--version", cwd=tmp_path).strip()
    assert wheel.name.split("-")[1] == version


@pytest.fixture
def port() -> Iterator[int]:
    """A port that nothing else is given meanwhile; the project's broker may have it."""
    with PortReservation() as reserved:
        yield reserved.port


@pytest.mark.integration
def test_a_new_project_shows_results_within_a_minute_and_its_tests_pass(
    python: Path, wheel: Path, tmp_path: Path, port: int
) -> None:
    """Its own environment is made by pip, of packages that are here, since the network is not.

    The minute is one of the processor, which other tests do not make longer.
    """
    env = {
        **os.environ,
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "TMPDIR": str(tmp_path),
        "KAFKA_OPTS": "-XX:TieredStopAtLevel=1",  # brokers that live for seconds
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": f"{wheel.parent} {tmp_path / 'wheels'}",
    }
    run(python, "-m", "streamlet", "new", "page-views", cwd=tmp_path)
    project = tmp_path / "page-views"
    (tmp_path / "wheels").mkdir()
    wanted = (project / "requirements-dev.txt").read_text("utf-8").splitlines()
    dependencies = [line.partition("#")[0] for line in wanted if not line.startswith("-r")]
    pack_installed(["streamlet", *dependencies], tmp_path / "wheels", beside={"streamlet"})

    def make(target: str) -> str:
        return run("make", target, f"PORT={port}", f"PYTHON={sys.executable}", cwd=project, env=env)

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    streamlet = project / ".venv" / "bin" / "streamlet"
    try:
        shown = make("demo").splitlines()
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        [broker] = json.loads(
            run(streamlet, "broker", "status", f"--port={port}", "--json", cwd=project, env=env)
        )["brokers"]
        brokers = psutil.Process(broker["pid"]).cpu_times()
        assert {"to 1", "to 2", "be 2", "question 1"} <= {*shown}
        # Of this broker alone: over another one it would be state without its positions.
        assert (project / "state" / str(port) / "demo").is_dir()
        seconds = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
        assert seconds + brokers.user + brokers.system <= FIRST_RESULTS_S
    finally:
        make("stop")
    assert "2 passed" in make("test")
