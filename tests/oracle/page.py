"""Prints ``docs/kafka-streams.md``: which recorded topologies are equal, differ, are missing."""

from __future__ import annotations

from pathlib import Path

from tests.oracle.dropped_records import table
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

_DROPPED = """
## Times of records that are left out

Whether a record of a later time moves the time by which an operator closes windows, sends what
waits and leaves out what is late, though it is left out itself or has no value: as recorded, and
replayed, from `tests/oracle/dropped`. Where a value may be missing it is counted, or deletes a row.
A record with a negative time, which an extractor gives, moves nothing: no operator sees it.
Empty: Kafka Streams ends with an error, or takes such records.

"""


def page() -> str:
    """The whole page, in Markdown."""
    names = sorted(path.stem for path in CASES.glob("*.json"))
    equal = [name for name in names if name in TOPOLOGIES and name not in DIFFERENT]
    head = _HEAD.format(
        all=len(names), equal=len(equal), different=len(DIFFERENT), missing=len(MISSING)
    )
    rows = "".join(f"| `{name}` | {_standing(name)} |\n" for name in names)
    return head + rows + _DROPPED + table()


def _standing(name: str) -> str:
    if name in DIFFERENT:
        return f"differs: {DIFFERENT[name]}"
    return "equal" if name in TOPOLOGIES else f"cannot be built yet: {MISSING[name].name}"


if __name__ == "__main__":
    print(page(), end="")
