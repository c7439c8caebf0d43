"""The documentation builds without a warning, and every public name is in it."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import streamlet
import streamlet.assignor.values
import streamlet.consumer
import streamlet.errors
import streamlet.serdes
import streamlet.spark
import streamlet.testing

ROOT = Path(__file__).resolve().parents[1]


def public_names() -> Iterator[str]:
    """Names that users import, by where they are defined; also public members of classes."""
    rooms: dict[ModuleType, list[str]] = {
        room: list(room.__all__)
        for room in (streamlet, streamlet.consumer, streamlet.serdes, streamlet.spark)
    }
    rooms[streamlet.testing] = dir(streamlet.testing)
    for module in (streamlet.errors, streamlet.assignor.values):
        rooms[module] = [name for name, one in vars(module).items() if defined_in(module, one)]
    for room, names in rooms.items():
        for name in names:
            found = getattr(room, name)
            home = getattr(found, "__module__", room.__name__)
            path = found.__name__ if inspect.ismodule(found) else f"{home}.{name}"
            yield path if path.startswith("streamlet") else f"{room.__name__}.{name}"
            if inspect.isclass(found):
                yield from (f"{path}.{one}" for one in members(found))


def defined_in(module: ModuleType, one: object) -> bool:
    return inspect.isclass(one) and one.__module__ == module.__name__


def members(kind: type) -> Iterator[str]:
    """Public methods and properties that a class of ours defines itself."""
    for name, member in vars(kind).items():
        made = inspect.isfunction(member) or isinstance(member, property | classmethod)
        if made and not name.startswith("_") and name != "of":
            yield name


def documented(inventory: bytes) -> set[str]:
    """The names in the site's inventory, which has an entry for each anchor."""
    *_, packed = inventory.split(b"\n", 4)
    return {line.split(" ", 1)[0] for line in zlib.decompress(packed).decode().splitlines()}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The site; ``STREAMLET_SITE`` is one that ``make docs`` has just built, without a warning."""
    if built_before := os.environ.get("STREAMLET_SITE"):
        return Path(built_before)
    site = tmp_path / "site"
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return site


def test_the_site_has_every_public_name_and_loads_nothing(site: Path) -> None:
    wanted = set(public_names())
    assert len(wanted) > 150
    assert wanted - documented((site / "objects.inv").read_bytes()) == set()
    loads = re.compile(r"<(?:script|link|img)[^>]* (?:src|href)=\"(?:https?:)?//[^\"]*")
    assert (site / "examples" / "kubernetes" / "words.yaml").is_file()  # a page links to it
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 25
    assert [found for page in pages for found in loads.findall(page.read_text("utf-8"))] == []
