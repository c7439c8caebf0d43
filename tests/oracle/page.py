"""Prints ``docs/kafka-streams.md``: which recorded topologies are equal, differ, are missing."""

from __future__ import annotations

from pathlib import Path

from tests.oracle.tables import DIFFERENT, MISSING, TOPOLOGIES

CASES = Path(__file__).parent / "cases"

_HEAD = """\
<!-- Made by `python -m tests.oracle.page > docs/kafka-streams.md`; a test compares them. -->
# Compared with Kafka Streams

{all} topologies were run through Kafka Streams 4.1.1, five runs each. Every output record with its
time and headers, and the stores at the end, were recorded in `tests/oracle/cases`; the lambdas of
each topology are in `tests/oracle`. `python -m tests.oracle tests/oracle/cases --out DIR` replays
them through `TopologyTestDriver`. {equal} are equal in all runs, {different} differ,
{missing} cannot be built yet.

Equal means: the same records after each step, in the same order within a topic, with the same keys,
values, timestamps and headers; the same rows with the same timestamps in the named stores.

| topology | |
|---|---|
"""


def page() -> str:
    """The whole page, in Markdown."""
    names = sorted(path.stem for path in CASES.glob("*.json"))
    equal = [name for name in names if name in TOPOLOGIES and name not in DIFFERENT]
    head = _HEAD.format(
        all=len(names), equal=len(equal), different=len(DIFFERENT), missing=len(MISSING)
    )
    return head + "".join(f"| `{name}` | {_standing(name)} |\n" for name in names)


def _standing(name: str) -> str:
    if name in DIFFERENT:
        return f"differs: {DIFFERENT[name]}"
    return "equal" if name in TOPOLOGIES else f"cannot be built yet: {MISSING[name].name}"


if __name__ == "__main__":
    print(page(), end="")
