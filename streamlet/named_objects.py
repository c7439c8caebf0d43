"""Objects of the user's program by their names, ``module:attribute``."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import PurePath
from types import ModuleType
from typing import Any

from streamlet.errors import StreamletError, error_text
from streamlet.user_code import listed, shown, working_folder


def named_object(reference: str, kind: type[Any], example: str, *, classes: bool = False) -> Any:
    """The object that ``module:attribute`` leads to; modules of the current folder included.

    Args:
        reference: its name.
        kind: the class that it is of.
        example: a name, for the message.
        classes: whether a class below ``kind`` will do, too.

    Raises:
        LookupError: it leads to no such object; the message says which step failed.
        StreamletError: the module raised it.
    """
    module_name, path = named_parts(reference, example)
    module = _module(module_name)
    found: Any = module
    for part in path.split("."):
        if not hasattr(found, part):
            others = _others(module, module_name, kind, classes)
            raise LookupError(f"module {shown(module_name)} has no {shown(path)}; {others}")
        found = getattr(found, part)
    if not _is_one(found, kind, classes):
        others = _others(module, module_name, kind, classes)
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise LookupError(
            f"{reference} is of type {type(found).__name__}, not {article} {kind.__name__}; "
            f"{others}"
        )
    return found


def named_parts(reference: str, example: str) -> tuple[str, str]:
    """Module and attribute of a name.

    Raises:
        LookupError: it is not ``module:attribute``; the message has the ``example``.
    """
    if not isinstance(reference, str):
        raise LookupError(f"{shown(reference)}: expected a text, for example {example}")
    module_name, colon, path = reference.partition(":")
    if not colon or not module_name or not path or _is_file(module_name):
        meant = _of_file(module_name, path or example.partition(":")[2])
        raise LookupError(
            f"{shown(reference)}: expected module:attribute, for example {meant or example}"
        )
    return module_name, path


def _is_file(module_name: str) -> bool:
    return module_name.endswith(".py") or "/" in module_name or "\\" in module_name


def _of_file(module_name: str, attribute: str) -> str:
    """The name of an object in a file that stands where a module does; empty where none does."""
    if not _is_file(module_name):
        return ""
    parts = PurePath(module_name.replace("\\", "/").removesuffix(".py")).parts
    if parts and all(part.isidentifier() for part in parts):
        return f"{'.'.join(parts)}:{attribute}"
    last = parts[-1] if parts and parts[-1].isidentifier() else ""
    return f"{last}:{attribute}, in the folder of that file" if last else ""


def _is_one(value: object, kind: type[Any], classes: bool) -> bool:
    if isinstance(value, kind):
        return True
    return classes and isinstance(value, type) and value is not kind and issubclass(value, kind)


def _module(name: str) -> ModuleType:
    here = working_folder()
    if here is not None and here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing == name or name.startswith(f"{missing}."):
            raise LookupError(
                f"there is no module {shown(name)} in {here or 'the folder'} or on Python's path"
            ) from error
        why = error_text(error)
        raise LookupError(f"module {shown(name)} cannot be imported: {why}") from error
    except (StreamletError, KeyboardInterrupt):
        raise  # wrong settings or a wrong topology: there is an application, but it cannot be
    except BaseException as error:  # also an exit: else "run" would end with the module's own code
        why = error_text(error)
        raise LookupError(f"module {shown(name)} cannot be imported: {why}") from error


def _others(module: ModuleType, name: str, kind: type[Any], classes: bool) -> str:
    """The objects of the module that would do, for a message."""
    some = sorted(own for own, value in vars(module).items() if _is_one(value, kind, classes))
    found = listed(f"{name}:{own}" for own in some)
    return f"it has {found}" if some else f"there is no {kind.__name__} in {name}"
