"""A left join by foreign keys, and what its tables add up to."""

from __future__ import annotations

from collections.abc import Iterable

import streamlet as sl

APP = sl.App("foreign-on-spark")
LEFT, RIGHT, JOINED = (f"{APP.name}-{name}" for name in ("left", "right", "joined"))
RIGHT_KEYS = 7

#: Topic, key and number; None removes the row.
Change = tuple[str, str, int | None]


def foreign_key(number: int) -> str:
    return f"r{number % RIGHT_KEYS}"


def pair(key: str, foreign: str, number: int, row: int | None) -> str:
    return f"{key} {foreign} {number} {row}"


_left = APP.table(LEFT, key=str, value=int, store="left")
_right = APP.table(RIGHT, key=str, value=int, store="right")
_left.left_join(_right, pair, foreign_key=foreign_key, value=str).to_stream().to(JOINED)


def joined(changes: Iterable[Change]) -> dict[str, str]:
    """The table at the end."""
    rows: dict[str, dict[str, int | None]] = {LEFT: {}, RIGHT: {}}
    for topic, key, number in changes:
        rows[topic][key] = number
    return {
        key: pair(key, foreign_key(number), number, rows[RIGHT].get(foreign_key(number)))
        for key, number in rows[LEFT].items()
        if number is not None
    }
