"""Which records that an operator leaves out move its time: runs recorded from Kafka Streams 4.1.1.

Each run has a record that is left out, at step ``dropped``. It moves the operator's time if the
same records without it gave other results behind it, which is recorded as ``moves``.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.oracle.compare import first_difference
from tests.oracle.dropped_records import DROPPED, recorded
from tests.oracle.replay import replay_run
from tests.oracle.tables import TOPOLOGIES

RUNS = [
    (name, run)
    for name in sorted(path.stem for path in DROPPED.glob("*"))
    for run in recorded(name)
]


def behind(run: dict[str, Any], at: int, key: Any, *, there: bool) -> list[Any]:
    """The outputs but those of the record at a step, by steps as they are without it."""
    found = []
    for output in run["outputs"]:
        step = output["after_step"]
        of = output["key"]["key"] if isinstance(output["key"], dict) else output["key"]
        if of != key and not (there and step == at):
            found.append({**output, "after_step": step - (there and step > at)})
    return found


@pytest.mark.parametrize(
    ("name", "run"), RUNS, ids=[f"{name}, {run['seed']}" for name, run in RUNS]
)
def test_a_record_that_is_left_out_moves_time_as_it_was_recorded(
    name: str, run: dict[str, Any]
) -> None:
    at = run["dropped"]
    key = run["steps"][at]["key"]
    found = replay_run(run, TOPOLOGIES[name])
    assert first_difference(run, found) is None
    steps = json.loads(json.dumps(run["steps"]))
    del steps[at]
    without = replay_run({**run, "steps": steps}, TOPOLOGIES[name])
    rest, same = behind(found, at, key, there=True), behind(without, at, key, there=False)
    assert (rest != same) == run["moves"]
