"""Builds the extension when streamlet is installed; where that is not possible, goes on without."""

from __future__ import annotations

import os
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import sys_tags

_ROOM = Path(__file__).parent / "streamlet" / "kafka" / "native"
_NAME = "streamlet.kafka.native._native"
#: Builds of Python without the GIL have no limited interface.
_FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


class NativeExtension(BuildHookInterface[Any]):
    """The part of a wheel that needs a C compiler."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build, and put it where an installation, or an editable one, looks for it."""
        if self.target_name != "wheel" or os.name != "posix":
            return
        with tempfile.TemporaryDirectory() as folder:
            try:
                built = build(Path(folder))
            except (Exception, SystemExit) as error:  # no compiler, no headers, no room: all go on
                self.app.display_warning(f"streamlet goes without its extension: {error}")
                return
            where = _ROOM if version == "editable" else Path(self.root) / "build" / "native"
            where.mkdir(parents=True, exist_ok=True)
            there = where / built.name
            beside = there.with_suffix(f".{os.getpid()}")  # processes that run it keep theirs
            beside.write_bytes(built.read_bytes())
            beside.replace(there)
        build_data["pure_python"] = False
        build_data["tag"] = _tag()
        if version != "editable":
            build_data["force_include"][str(there)] = f"streamlet/kafka/native/{built.name}"


def build(folder: Path) -> Path:
    """Compile and link in a folder; the file that Python loads.

    Raises:
        Exception: what setuptools makes of a compiler that is not there, or fails.
    """
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    extension = Extension(
        _NAME,
        sorted(map(str, _ROOM.glob("extension/*.c"))),
        depends=sorted(map(str, _ROOM.glob("extension/*.h"))),
        define_macros=[("STREAMLET_FREE_THREADED", "1")] if _FREE_THREADED else [],
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
    return str(here) if _FREE_THREADED else f"cp311-abi3-{here.platform}"
