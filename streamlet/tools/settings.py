"""Reads settings off the command line: a properties file, and ``--set key=value``, which wins."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from streamlet.config.sources import Entry, FileEntries, file_entries, variable
from streamlet.config.values import servers
from streamlet.errors import ConfigError
from streamlet.user_code import shown


def read_file(file: Path | None) -> FileEntries:
    """The entries of a properties file, unchecked.

    Raises:
        ConfigError: the file cannot be read, or has lines that are none, all at once.
    """
    problems: list[str] = []
    entries = list(file_entries(file, problems))
    if problems:
        raise ConfigError(problems)
    return entries


def assignments(texts: Sequence[str], place: str) -> list[Entry]:
    """Settings of ``--set``, or of its variable: each with its key, its value and its place.

    Raises:
        ConfigError: texts that are none.
    """
    found = key_values(texts, place)
    return [(key, value, f"{place} {key}") for key, value in found.items()]


def merged(entries: FileEntries, assigned: Sequence[Entry]) -> dict[str, str]:
    """Dotted keys and their values as text, unchecked; a variable goes before the file."""
    named = {key: value for key, value, _ in entries if not os.environ.get(variable(key))}
    return {**named, **{key: value for key, value, _ in assigned}}


def check_servers(given: str | None, place: str) -> str | None:
    """Brokers' addresses as given at a place, if there are any.

    Raises:
        ConfigError: they can be none.
    """
    try:
        return None if given is None else servers().parse(given)
    except ValueError as error:
        raise ConfigError([f"{place} = {shown(given)}: {error}"]) from error


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
            problems.append(f"{where}: {shown(text)} is not key=value")
    if problems:
        raise ConfigError(problems)
    return found
