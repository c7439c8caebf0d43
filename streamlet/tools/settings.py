"""Reads settings off the command line: a properties file, then ``--set key=value``, which wins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from streamlet.config.sources import file_entries
from streamlet.config.values import servers
from streamlet.errors import ConfigError


def read_settings(file: Path | None, assignments: Sequence[str]) -> dict[str, str]:
    """Dotted keys and their values as text, unchecked.

    Raises:
        ConfigError: the file cannot be read, or lines and assignments that are none, all at once.
    """
    problems: list[str] = []
    given = {key: value for key, value, _ in file_entries(file, problems)}
    if problems:
        raise ConfigError(problems)
    return {**given, **key_values(assignments, "--set")}


def check_servers(given: str | None) -> str | None:
    """Brokers' addresses as given, if there are any.

    Raises:
        ConfigError: they can be none.
    """
    try:
        return None if given is None else servers().parse(given)
    except ValueError as error:
        raise ConfigError([f"--bootstrap-servers {given}: {error}"]) from error


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
