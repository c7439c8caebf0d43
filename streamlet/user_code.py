"""Places in the user's own program, which raised or which a thread is at, and texts of its objects.

A line is the user's if its file belongs neither to streamlet nor to Python or an installed package.

Texts of the user's exceptions and objects are asked for here only: their ``__str__`` and
``__repr__`` may raise anything, and what they give may have no bytes.
"""

from __future__ import annotations

import importlib
import linecache
import os
import sysconfig
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from traceback import walk_tb
from types import CodeType
from typing import Any

import attrs

#: Characters of an object or a name that a message shows.
MOST_SHOWN = 100
#: Names that a message lists.
MOST_LISTED = 20

_OURS = str(Path(__file__).parent) + os.sep
#: Files in which imports run.
_IMPORTS = ("<frozen", importlib.__file__)
_LIBRARIES = tuple(
    path + os.sep
    for name in ("stdlib", "platstdlib", "purelib", "platlib")
    if (path := sysconfig.get_path(name))
)


@attrs.frozen
class Place:
    """A line of a program."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        """For a message: where it is, as editors and terminals follow it, and the code there."""
        code = linecache.getline(self.file, self.line).strip()
        here = working_folder()
        file = self.file if here is None else self.file.removeprefix(here + os.sep)
        where = printable(f"{file}:{self.line} in {self.function}")
        return f"{where}, `{code}`" if code else where


def working_folder() -> str | None:
    """The folder that the process works in; None if it is gone."""
    try:
        return str(Path.cwd())
    except OSError:
        return None


def printable(text: str) -> str:
    """A text that has bytes: halves of surrogate pairs are written as escapes."""
    return text.encode(errors="backslashreplace").decode()


def text_of(one: object) -> str:
    """The text of an exception or a type, with bytes; if it has none to be had, what it raised."""
    return _asked(str, one)


def shown(value: object, most: int = MOST_SHOWN) -> str:
    """The representation of a user's object or name for a message, cut where it is long."""
    return cut(_asked(repr, value), most)


def plain_hint(value: object) -> str:
    """A hint for a message's end: the call that turns a numpy or pandas value into a plain one."""
    method = _PLAIN_BY.get(type(value).__name__)
    if method is None and type(value).__module__ == "numpy":
        method = "item" if getattr(value, "shape", ()) == () else "tolist"
    return f"; call its .{method}()" if method else ""


#: The method of a type of pandas that does so.
_PLAIN_BY = {"Timestamp": "to_pydatetime", "Timedelta": "to_pytimedelta"}


def base_hint(value: object, kinds: Iterable[type]) -> str:
    """A hint for a value of a subclass of what is expected, or of bytes that can change."""
    kind = next((one for one in kinds if isinstance(value, _BASES.get(one, ()))), None)
    if kind is None:
        return ""
    return "; use its .value" if isinstance(value, Enum) else f"; {kind.__name__}() makes it one"


#: Types whose call makes one of these.
_BASES: dict[type, type | tuple[type, ...]] = {
    **{kind: kind for kind in (str, int, float, dict, list)},
    bytes: (bytes, bytearray, memoryview),
}


def cut(text: str, most: int) -> str:
    """The beginning of a text that is longer than so many characters."""
    return text if len(text) <= most else f"{text[:most]}…"


def listed(names: Iterable[str], most: int = MOST_LISTED) -> str:
    """Names for a message, with commas: the first ones, and how many more there are."""
    found = [*names]
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more


def _asked(ask: Callable[[Any], str], value: object) -> str:
    try:
        return printable(ask(value))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # it must not hide what is told of
        return f"<{ask.__name__} failed: {type(error).__name__}>"


def raised_at(error: BaseException) -> Place | None:
    """The user's line that raised, or that called what raised; None if no line is the user's."""
    return users_line((frame.f_code, line) for frame, line in walk_tb(_trace_of(error)))


#: Attributes of an exception as Python keeps them, whatever its class makes of looking them up.
_trace_of: Any = vars(BaseException)["__traceback__"].__get__


def users_line(steps: Iterable[tuple[CodeType, int]]) -> Place | None:
    """The innermost of these lines that is the user's; ``steps`` lead from the outermost inwards.

    Where the program itself is an installed package, that is the first line which is not ours.
    """
    own = called = None
    for code, line in steps:
        place = Place(code.co_filename, line, code.co_name)
        if is_users(code.co_filename):
            own = place
        elif called is None and not is_ours(code.co_filename):
            called = place
    return own or called


def users_places(error: BaseException) -> list[Place]:
    """All lines of the user's that an error went through, from the outermost inwards."""
    steps = ((frame.f_code, line) for frame, line in walk_tb(_trace_of(error)))
    return [
        Place(code.co_filename, line, code.co_name)
        for code, line in steps
        if is_users(code.co_filename)
    ]


def package_of(kind: object) -> str:
    """The package that a class is from; empty if it does not say so."""
    return str(getattr(kind, "__module__", "")).partition(".")[0]


def is_ours(file: str) -> bool:
    """True if a file belongs to streamlet, or to Python's own machinery of imports."""
    return file.startswith((_OURS, *_IMPORTS))


def is_users(file: str) -> bool:
    """True if a file is the user's own."""
    return not (is_ours(file) or file.startswith(_LIBRARIES))
