"""Wheels of installed distributions, so that pip can install them again without a network."""

from __future__ import annotations

import zipfile
from collections.abc import Collection, Iterable, Iterator
from email.parser import Parser
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.tags import parse_tag, sys_tags
from packaging.utils import canonicalize_name

#: What pip writes where it installs, which is in no wheel.
_OF_THIS_PLACE: Final = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"})

#: The tags of wheels that this Python takes.
_HERE: Final = frozenset(sys_tags())


def pack_installed(requirements: Iterable[str], folder: Path, beside: Collection[str] = ()) -> None:
    """Write a wheel of each distribution that requirements need, as it is installed here.

    Args:
        requirements: as a requirements file has them; what is not installed is an error.
        folder: where the wheels go, for ``pip install --no-index --find-links``.
        beside: names of distributions that have a wheel already.
    """
    for found in _needed(requirements):
        if found.metadata["Name"] not in beside:
            _pack(found, folder)


def _needed(requirements: Iterable[str]) -> Iterator[Distribution]:
    """The distributions of requirements, and those that they need in turn, each once."""
    waiting = [Requirement(text) for text in requirements]
    seen: set[tuple[str, str]] = set()
    packed: set[str] = set()
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        extras = {"", *wanted.extras} - {extra for known, extra in seen if known == name}
        if not extras:
            continue
        seen.update((name, extra) for extra in extras)
        found = distribution(name)
        if name not in packed:
            packed.add(name)
            yield found
        for one in map(Requirement, found.requires or ()):
            if one.marker is None or any(one.marker.evaluate({"extra": e}) for e in extras):
                waiting.append(one)


def _pack(found: Distribution, folder: Path) -> None:
    """Write the wheel of one distribution: its files but scripts, which pip makes anew."""
    tags = Parser().parsestr(found.read_text("WHEEL") or "").get_all("Tag", [])
    tag = next(tag for tag in tags if parse_tag(tag) & _HERE)
    name = canonicalize_name(found.metadata["Name"]).replace("-", "_")
    files = [
        file
        for file in found.files or ()
        if ".." not in file.parts
        and "__pycache__" not in file.parts
        and not (file.name in _OF_THIS_PLACE and file.parent.suffix == ".dist-info")
    ]
    [information] = {file.parent for file in files if file.name == "WHEEL"}
    with zipfile.ZipFile(folder / f"{name}-{found.version}-{tag}.whl", "w") as packed:
        for file in files:
            packed.write(Path(str(file.locate())), str(file))
        record = "".join(f"{file},,\n" for file in files)
        packed.writestr(f"{information}/RECORD", record)
