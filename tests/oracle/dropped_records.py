"""The runs in which a record is left out, and the table of those that move time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DROPPED = Path(__file__).parent / "dropped"

#: Operator -> the topology that was recorded, and the input of the record where there are two.
OPERATORS = {
    "tumbling windows": ("tumbling-count", ""),
    "hopping windows": ("hopping-count", ""),
    "sliding windows": ("sliding-count", ""),
    "sessions": ("session-count", ""),
    "final results of tumbling windows": ("tumbling-count-on-close", ""),
    "final results of hopping windows": ("hopping-count-on-close-grace", ""),
    "final results of sliding windows": ("sliding-count-on-close-grace", ""),
    "final results of sessions": ("session-count-on-close-grace", ""),
    "windows of `cogroup`": ("cogroup-tumbling", "left"),
    "sessions of `cogroup`": ("cogroup-session", "left"),
    "`suppress` until windows close": ("suppress-tumbling", ""),
    "`suppress` until sessions close": ("suppress-session", ""),
    "`suppress` of a table": ("suppress-table-time-limit", ""),
    "`join` of streams": ("stream-stream-inner", "left"),
    "`left_join` of streams": ("stream-stream-left", "left"),
    "`left_join` of streams, on the right": ("stream-stream-left", "right"),
    "`outer_join` of streams": ("stream-stream-outer", "left"),
    "a stream with itself": ("self-join", ""),
    "`join` with grace": ("stream-table-versioned-grace", "left"),
    "`left_join` with grace": ("stream-table-versioned-grace-left", "left"),
    "versioned table": ("table-versioned-group-by", ""),
    "versioned table of a join with grace": ("stream-table-versioned-grace", "right"),
    "versioned store of a processor": ("versioned-get-as-of", ""),
    "punctuators by stream time": ("punctuate-stream-time", ""),
}
KINDS = ("null key", "null value", "late")


def recorded(name: str) -> list[dict[str, Any]]:
    """The runs of a topology."""
    runs: list[dict[str, Any]] = json.loads((DROPPED / f"{name}.json").read_text("utf-8"))["runs"]
    return runs


def table() -> str:
    """The table, in Markdown: an operator, and whether each kind of record moves its time."""
    lines = ["| operator | without a key | without a value | late |", "|---|---|---|---|"]
    for operator, (name, side) in OPERATORS.items():
        moves = {run["seed"]: run["moves"] for run in recorded(name)}
        cells = [_cell(moves.get(f"{side}, {kind}" if side else kind)) for kind in KINDS]
        lines.append(f"| {operator} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(moves: bool | None) -> str:
    return "" if moves is None else "moves it" if moves else "no"
