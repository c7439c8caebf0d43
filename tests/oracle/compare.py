"""Compares a replayed run with the recorded one: outputs step by step, then the stores."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any


def first_difference(run: Mapping[str, Any], actual: Mapping[str, Any]) -> str | None:
    """Where the two runs part, or None if they are equal.

    Outputs count in order within a step and topic, with times and headers; stores as sets of
    entries with their times.
    """
    if "error" in actual:
        return str(actual["error"])
    wanted, given = _by_step(run["outputs"]), _by_step(actual["outputs"])
    for place in sorted({*wanted, *given}):
        if wanted[place] != given[place]:
            step, topic = place
            return (
                f"step {step} {_text(run['steps'][step])}, topic {topic}\n"
                f"    kafka  {_line(wanted[place])}\n    actual {_line(given[place])}"
            )
    for name in sorted({*run["stores"], *actual["stores"]}):
        if name not in run["stores"] or name not in actual["stores"]:
            return f"store {name} is only {'there' if name in run['stores'] else 'here'}"
        there, here = (Counter(map(_text, one["stores"][name])) for one in (run, actual))
        if there != here:
            return (
                f"store {name}\n    only kafka  {_line((there - here).elements())}\n"
                f"    only actual {_line((here - there).elements())}"
            )
    return None


def _by_step(outputs: Iterable[Mapping[str, Any]]) -> defaultdict[tuple[int, str], list[str]]:
    steps: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
    for one in outputs:
        record = [one["key"], one["value"], one["timestamp"], one.get("headers") or []]
        steps[one["after_step"], one["topic"]].append(_text(record))
    return steps


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _line(records: Iterable[str]) -> str:
    return " ".join(records) or "nothing"
