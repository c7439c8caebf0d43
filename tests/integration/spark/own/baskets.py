"""A module beside the application, which it imports."""

from __future__ import annotations


def words(line: str) -> list[str]:
    return line.split()
