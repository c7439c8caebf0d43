"""Loads public names of packages when they are first used, for their ``__getattr__`` (PEP 562)."""

from __future__ import annotations

import pkgutil
import re
from functools import cache
from importlib import import_module
from typing import Any

#: One name on its line, or in parentheses where that is too long for one.
_IMPORT = re.compile(r"^from (\S+) import (?:\(\s+)?(\w+) as \2(?:,\s+\))?$", re.MULTILINE)


@cache
def public_names(package: str) -> dict[str, str]:
    """The public names of a package, each with its module: the imports of ``__init__.pyi``.

    Type checkers read the same file.
    """
    stub = pkgutil.get_data(package, "__init__.pyi")  # out of a zip, too
    assert stub is not None, package
    return {name: module for module, name in _IMPORT.findall(stub.decode())}


def _meant(names: dict[str, str], name: str) -> str:
    """A message's end with the name that was probably meant, in whatever case; empty for none."""
    if name.startswith("_"):
        return ""
    from difflib import get_close_matches  # not needed by those who make no mistake

    found = {one.lower(): one for one in names}
    close = get_close_matches(name.lower(), found, n=1, cutoff=0.8)
    return f"; did you mean {found[close[0]]}?" if close else ""


def load_name(package: str, name: str) -> Any:
    """Import a public name of a package from the module that defines it.

    Raises:
        AttributeError: it is none of them.
    """
    names = public_names(package)
    if name == "__all__":
        return [*names]
    if name not in names:
        raise AttributeError(f"module {package!r} has no attribute {name!r}{_meant(names, name)}")
    if names[name] == package:  # a room, not a name of one
        return import_module(f"{package}.{name}")
    return getattr(import_module(names[name]), name)
