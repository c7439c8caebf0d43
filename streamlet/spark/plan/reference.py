"""The reference of an application for Spark's workers: ``module:attribute``, never an object.

Operators are closures over the user's functions, and what a pickler makes of their globals is not
what a module has. So every process imports the module for itself.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

from streamlet.config import Settings
from streamlet.errors import AppNotFoundError
from streamlet.processing.policy import ErrorPolicy
from streamlet.topology.detours import without_circles
from streamlet.topology.graph import Topology


class Application(Protocol):
    """The part of ``streamlet.App`` that Spark uses."""

    name: str
    settings: Settings

    @property
    def policy(self) -> ErrorPolicy:
        """The rules for records that fail."""
        ...

    @property
    def processor_wrapper(self) -> object:
        """The hook around nodes, if it has one."""
        ...

    @property
    def tracer_provider(self) -> object:
        """The provider of spans, if it has one."""
        ...

    def topology(self) -> Topology:
        """The finished topology."""
        ...


def reference_of(app: Application | str) -> str:
    """``module:attribute`` of an application that is a module's variable.

    Raises:
        AppNotFoundError: it is none, or only one of ``__main__``, which workers cannot import.
    """
    if isinstance(app, str):
        check_importable(app)
        return app
    found = [
        (name, attribute)
        for name, module in sorted(sys.modules.items())
        if module is not None and hasattr(module, "__dict__")
        for attribute, value in sorted(vars(module).items())
        if value is app
    ]
    usable = [f"{name}:{attribute}" for name, attribute in found if _importable(name)]
    if usable:
        return min(usable, key=lambda reference: (reference.count("."), reference))
    if any(name == "__main__" for name, _ in found):
        raise _in_main(app.name)
    raise AppNotFoundError(
        f"App {app.name!r} is no variable of a module that can be imported; Spark's workers import "
        "it by its name: make it one, or give module:attribute"
    )


def check_importable(reference: str) -> None:
    """Refuse what workers cannot import.

    Raises:
        AppNotFoundError: it is not ``module:attribute``, or lies in ``__main__``.
    """
    module, _, attribute = reference.partition(":")
    if not module or not attribute:
        raise AppNotFoundError(f"{reference!r}: expected module:attribute, for example flights:app")
    if module == "__main__":
        raise _in_main(attribute)


def resolve(reference: str) -> Application:
    """The application, imported in this process.

    Raises:
        AppNotFoundError: there is none under this name.
    """
    check_importable(reference)
    module, _, path = reference.partition(":")
    try:
        found: Any = import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise AppNotFoundError(f"{reference} cannot be imported here: {error}") from error
    if not callable(getattr(found, "topology", None)):
        raise AppNotFoundError(f"{reference} is of type {type(found).__name__}, not an App")
    app: Application = found
    return app


def query_topology(app: Application) -> Topology:
    """The topology of an application's query, in which stages follow each other.

    That of the application, but with detours for joins by foreign keys (``topology.detours``).
    """
    return without_circles(app.topology())


def _importable(module: str) -> bool:
    if module == "__main__":
        return False
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError, AttributeError):
        return False


def _in_main(what: str) -> AppNotFoundError:
    return AppNotFoundError(
        f"App {what!r} is defined in __main__, which Spark's workers cannot import; put it into a "
        "module of its own and import it from there"
    )
