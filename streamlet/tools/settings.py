"""Reads settings off the command line: a properties file, then ``--set key=value``, which wins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from streamlet.errors import ConfigError


def read_settings(file: Path | None, assignments: Sequence[str]) -> dict[str, str]:
    """Dotted keys and their values as text, unchecked.

    Raises:
        ConfigError: the file cannot be read, or lines and assignments that are none, all at once.
    """
    if file is None:
        return key_values(assignments, "--set")
    try:
        lines = _logical_lines(file.read_text(encoding="utf-8").splitlines())
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"cannot read {file}: {error}"]) from error
    return {**key_values(lines, str(file)), **key_values(assignments, "--set")}


def key_values(texts: Iterable[str], where: str) -> dict[str, str]:
    """``key=value`` texts as a dict; the last of equal keys wins.

    Raises:
        ConfigError: texts without ``=`` or without a key.
    """
    found: dict[str, str] = {}
    problems = []
    for text in texts:
        key, equals, value = text.partition("=")
        if equals and key.strip():
            found[key.strip()] = value.strip()
        else:
            problems.append(f"{where}: {text!r} is not key=value")
    if problems:
        raise ConfigError(problems)
    return found


def _logical_lines(lines: Iterable[str]) -> list[str]:
    """Lines of a properties file without comments, those that end in a backslash joined."""
    logical, begun = [], ""
    for line in lines:
        text = begun + line.strip()
        if not begun and (not text or text[0] in "#!"):
            continue
        if text.endswith("\\"):
            begun = text[:-1]
        else:
            logical.append(text)
            begun = ""
    return [*logical, begun] if begun else logical
