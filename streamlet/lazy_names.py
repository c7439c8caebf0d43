"""Loads public names of packages when they are first used, for their ``__getattr__`` (PEP 562)."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any


def load_name(package: str, modules: Mapping[str, str], name: str) -> Any:
    """Import a public name from the module that defines it.

    Args:
        package: the package that is asked for it.
        modules: its public names, each with its module.
        name: the one that is asked for.

    Raises:
        AttributeError: it is none of them.
    """
    if name not in modules:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return getattr(import_module(modules[name]), name)
