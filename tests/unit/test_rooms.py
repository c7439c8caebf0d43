"""``make test ROOM=…`` runs the suites of a room, and every unit test belongs to one."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def make(*words: str) -> subprocess.CompletedProcess[str]:
    """What make would do; variables of a make that runs this test do not count."""
    return subprocess.run(
        ["make", "--dry-run", "--no-print-directory", "test", *words],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=400,
    )


def suites(*words: str) -> list[str]:
    """The paths that pytest is given."""
    done = make(*words)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if "-m pytest" in line]
    return line.partition("--no-loadscope-reorder")[2].split()


def rooms() -> list[str]:
    """All of them, as the error lists them."""
    return make("ROOM=nowhere").stderr.partition("ROOM is one of: ")[2].partition(".")[0].split()


def files(suite: str) -> set[Path]:
    """The tests of a suite, which may be a pattern."""
    found: set[Path] = set()
    for path in ROOT.glob(suite):
        found |= set(path.rglob("test_*.py")) if path.is_dir() else {path}
    return found


def test_without_a_room_all_tests_run() -> None:
    assert suites() == []
    assert suites("ROOM=") == []


def test_a_room_has_its_unit_tests_and_the_suites_named_for_it() -> None:
    found = suites("ROOM=assignor")
    assert found[0] == "tests/unit/assignor"
    assert "tests/spec" in found
    assert suites("ROOM=dsl assignor")[0] == "tests/unit/dsl"


def test_a_room_that_does_not_exist_is_an_error_that_lists_the_rooms() -> None:
    done = make("ROOM=assignor kitchen")
    assert done.returncode == 2
    assert "there is no room kitchen; ROOM is one of: admin app " in done.stderr


def test_every_unit_test_is_in_a_room_and_every_suite_exists() -> None:
    listed = {suite for room in rooms() for suite in suites(f"ROOM={room}")}
    assert [suite for suite in sorted(listed) if not files(suite)] == []
    in_rooms = {path for suite in listed for path in files(suite)}
    assert sorted(set((ROOT / "tests" / "unit").rglob("test_*.py")) - in_rooms) == []


def test_every_test_on_a_broker_is_in_a_room_or_named_beside_them() -> None:
    page = (ROOT / "docs" / "CONTRIBUTING.md").read_text("utf-8")
    listed = {suite for room in rooms() for suite in suites(f"ROOM={room}")}
    listed |= set(re.findall(r"`(tests/integration/[\w/.]+)`", page))
    in_rooms = {path for suite in listed for path in files(suite)}
    assert sorted(set((ROOT / "tests" / "integration").rglob("test_*.py")) - in_rooms) == []


def test_the_guides_name_files_that_exist() -> None:
    page = (ROOT / "docs" / "CONTRIBUTING.md").read_text("utf-8")
    guides = page.partition("## How to add a scenario key")
    paths = sorted((ROOT / "streamlet").glob("*/"))
    rooms = "|".join(path.name for path in paths if path.name.isidentifier())
    inside = rf"`((?:{rooms})/[\w/]+)(?:\.py)?`"
    named = [f"streamlet/{name}.py" for name in re.findall(inside, guides[0])]
    simulation = ROOT / "streamlet" / "testing" / "simulation"
    named += [f"{simulation}/{name}" for name in re.findall(r"`(\w+\.py)`", guides[2])]
    named += re.findall(r"`(tests/[\w/.]+)`", page)
    assert len(named) > 40
    assert [name for name in named if not (ROOT / name).exists()] == []
