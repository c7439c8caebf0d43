"""Builds the extension when streamlet is installed, and names the project's pages in a release.

Where the extension cannot be built, the installation goes on without.
"""

from __future__ import annotations

import os
import re
import runpy
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface
from packaging.tags import sys_tags

_ROOM = Path(__file__).parent / "streamlet" / "kafka" / "native"
_NAME = "streamlet.kafka.native._native"
#: Python whose C interface the extension is written to.
_HAS_INTERFACE = os.name == "posix" and sys.implementation.name == "cpython"
#: Builds of Python without the GIL have no limited interface.
_FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
#: The repository whose pages a release names, as https://HOST/OWNER/streamlet.
_REPOSITORY = "STREAMLET_REPOSITORY"
#: What a package index calls a page, and where it is in a repository.
_PAGES = {
    "Source": "",
    "Documentation": "/blob/main/docs/index.md",
    "Changelog": "/blob/main/CHANGELOG.md",
    "Issues": "/issues",
}


class ProjectPages(MetadataHookInterface):
    """The project's pages, which lie where the repository does that a release is built in."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Name them, if the environment names the repository."""
        if where := os.environ.get(_REPOSITORY, "").rstrip("/"):
            metadata["urls"] = {name: where + page for name, page in _PAGES.items()}


class NativeExtension(BuildHookInterface[Any]):
    """The part of a wheel that needs a C compiler."""

    _folder: tempfile.TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build, and put it where an installation, or an editable one, looks for it."""
        if self.target_name != "wheel" or not _HAS_INTERFACE:
            return
        editable = version == "editable"
        try:
            self._folder = tempfile.TemporaryDirectory()
            built = build(Path(self._folder.name))
            if editable:
                _put(built, _ROOM)
        except (Exception, SystemExit) as error:  # no compiler, no headers, no room: all go on
            self.app.display_warning(f"streamlet goes without its extension: {error}")
            self.finalize(version, build_data, "")
            return
        build_data["pure_python"] = False
        build_data["tag"] = _tag()
        if not editable:
            build_data["force_include"][str(built)] = f"streamlet/kafka/native/{built.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what the wheel was made of."""
        if self._folder is not None:
            self._folder.cleanup()


def _put(built: Path, room: Path) -> None:
    """Put a file into a folder at once: processes that run the one before keep theirs."""
    beside = room / f".{built.name}.{os.getpid()}.so"
    try:
        beside.write_bytes(built.read_bytes())
        beside.replace(room / built.name)
    finally:
        beside.unlink(missing_ok=True)


def build(folder: Path) -> Path:
    """Compile and link in a folder; the file that Python loads.

    Raises:
        Exception: what setuptools makes of a compiler that is not there, or fails.
    """
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    macros = [("STREAMLET_SOURCES", f'"{runpy.run_path(str(_ROOM / "sources.py"))["digest"]()}"')]
    if _FREE_THREADED:
        macros.append(("STREAMLET_FREE_THREADED", "1"))
    extension = Extension(
        _NAME,
        sorted(map(str, _ROOM.glob("extension/*.c"))),
        depends=sorted(map(str, _ROOM.glob("extension/*.h"))),
        define_macros=macros,
        extra_compile_args=["-std=c11", "-D_GNU_SOURCE", "-fvisibility=hidden"],
        libraries=["dl"] if sysconfig.get_platform().startswith("linux") else [],
        py_limited_api=not _FREE_THREADED,
    )
    command = build_ext(Distribution({"name": "streamlet", "ext_modules": [extension]}))
    command.build_lib, command.build_temp = str(folder / "lib"), str(folder / "temp")
    command.ensure_finalized()
    command.run()
    return Path(command.get_ext_fullpath(_NAME))


def _tag() -> str:
    """The wheel's tag: one build serves every Python from 3.11 on, if it has the GIL."""
    others = ("manylinux", "musllinux")  # which a wheel is for after auditwheel has looked at it
    here = next(tag for tag in sys_tags() if not tag.platform.startswith(others))
    platform = here.platform
    if sys.platform == "darwin":  # what it was compiled for, which may be older than this machine
        platform = re.sub(r"[-.]", "_", sysconfig.get_platform())
    python = f"{here.interpreter}-{here.abi}" if _FREE_THREADED else "cp311-abi3"
    return f"{python}-{platform}"
