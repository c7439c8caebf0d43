"""Reading JSON strictly: every problem with the key it is at and what was expected there."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from streamlet.bounded import MORE_PROBLEMS, MOST_PROBLEMS, shortened
from streamlet.errors import ConfigError
from streamlet.user_code import shown

T = TypeVar("T")

#: Numbers above this mean nothing: thirty years in ms.
MOST = 10**12
#: Problems before which a key that is unknown is compared with those that are known.
_MOST_HINTS = 100


class ScenarioError(ConfigError):
    """A scenario that cannot be played: which keys, and what was expected there."""


class ProblemCollector:
    """Collects problems, so that one run names them all."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def problem(self, where: str, text: str) -> None:
        """Note what is wrong at a key.

        Raises:
            ScenarioError: there are so many that no more are looked for.
        """
        self.problems.append(f"{shortened(where)}: {text}")
        if len(self.problems) == MOST_PROBLEMS:
            self.problems.append(MORE_PROBLEMS)
            self.raise_problems()

    def raise_problems(self) -> None:
        """Give up if there are any.

        Raises:
            ScenarioError: with all of them.
        """
        if self.problems:
            raise ScenarioError(self.problems)

    def wrong(self, where: str, expected: str, value: object) -> None:
        """Note a value that is not what was expected."""
        self.problem(where, f"expected {expected}, not {_shown(value)}")

    def mapping(self, where: str, value: object) -> dict[str, Any]:
        """An object, empty where there is none."""
        if isinstance(value, dict):
            return value
        self.wrong(where, "an object", value)
        return {}

    def keys(self, where: str, value: Mapping[str, object], known: Iterable[str]) -> None:
        """Note unknown keys; ``check`` and ``x-…`` are free."""
        names = list(known)
        for key in value:
            if key in names or key == "check" or key.startswith("x-"):
                continue
            hints = len(self.problems) < _MOST_HINTS  # a look takes a ms
            close = difflib.get_close_matches(key, names, n=1) if hints else []
            hint = f"did you mean {close[0]}?" if close else f"expected {any_of(names)}"
            self.problem(f"{where}.{key}" if where else key, f"unknown key, {hint}")

    def items(self, where: str, value: object) -> Sequence[Any]:
        """A list, empty where there is none."""
        if isinstance(value, list):
            return value
        self.wrong(where, "a list", value)
        return ()

    def whole(self, where: str, value: object, least: int = 0, most: int = MOST) -> int:
        """A whole number of at least, and at most, so much."""
        plain = isinstance(value, int) and not isinstance(value, bool)
        if plain and least <= value <= most:  # type: ignore[operator]
            return value  # type: ignore[return-value]
        high = plain and value > most  # type: ignore[operator]
        bounds = f"{least} to {most}" if high else f"{least} or more"
        self.wrong(where, f"a whole number, {bounds}", value)
        return least

    def number(self, where: str, value: object, *, low: float, high: float, expected: str) -> float:
        """A number above ``low`` (or 0, if that is it) and up to ``high``."""
        plain = isinstance(value, int | float) and not isinstance(value, bool)
        if plain and (low < value <= high or value == low == 0):  # type: ignore[operator]
            return float(value)  # type: ignore[arg-type]
        self.wrong(where, expected, value)
        return max(low, 0.0)

    def boolean(self, where: str, value: object) -> bool:
        """True or false."""
        if isinstance(value, bool):
            return value
        self.wrong(where, "true or false", value)
        return False

    def text(self, where: str, value: object) -> str:
        """Some text, not empty."""
        if isinstance(value, str) and value:
            return value
        self.wrong(where, "some text", value)
        return ""

    def one_of(self, where: str, value: object, names: Iterable[str], what: str) -> str | None:
        """One of the names there are."""
        known = list(names)
        if isinstance(value, str) and value in known:
            return value
        if isinstance(value, str):
            self.problem(where, f"unknown {what} {_shown(value)}, expected {any_of(known)}")
        else:
            self.wrong(where, f"the name of a {what}", value)
        return None

    def names(self, where: str, value: object, known: Iterable[str], what: str) -> tuple[str, ...]:
        """A list of names there are, each once."""
        known = list(known)
        found: dict[str, None] = {}
        for number, name in enumerate(self.items(where, value)):
            place = f"{where}[{number}]"
            good = self.one_of(place, name, known, what)
            if good is not None and good in found:
                self.problem(place, f"{good} is there twice, expected each {what} once")
            elif good is not None:
                found[good] = None
        return tuple(found)

    def each(self, where: str, value: object, read: Callable[[str, Any], T]) -> dict[str, T]:
        """An object read entry by entry; ``x-…`` is left out."""
        return {
            key: read(f"{where}.{key}", one)
            for key, one in self.mapping(where, value).items()
            if not key.startswith("x-")
        }


def any_of(names: Iterable[str]) -> str:
    """A list of names for an error message, shortened where it is long."""
    listed = list(names)
    more = f" or {len(listed) - 12} more" if len(listed) > 12 else ""
    return ", ".join(listed[:12]) + more if listed else "none: there are none"


def _shown(value: object) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if value is None or isinstance(value, bool):
        return {True: "true", False: "false", None: "null"}[value]
    return shown(value)
