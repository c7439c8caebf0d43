"""What a run says that returns no result."""

from __future__ import annotations

import pytest

from streamlet.app import App
from streamlet.hosting.run import RunResults
from streamlet.processing.outputs import Output
from streamlet.types import TaskId


def results(
    records: int = 0,
    *,
    sink: bool = True,
    keep: bool = True,
    tasks: int = 2,
    wanted: int | None = None,
) -> RunResults:
    app = App("words")
    stream = app.stream(["lines", "more"], key=str, value=str)
    stream.foreach(print)
    if sink:
        stream.group_by(lambda k, v: v, key=str).count().to_stream().to("counts")
    found = RunResults(app.topology(), keep, wanted=wanted)
    running = [str(TaskId(0, number)) for number in range(tasks)]
    found.take(0, {"event": "state", "state": "RUNNING", "tasks": running})
    found.take(0, {"event": "state", "state": "PENDING_SHUTDOWN", "tasks": []})
    found.take(0, {"event": "ended", "drained": False, "records": records})
    return found


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            results(tasks=0, wanted=0),
            "did nothing: count=0 is reached before the first record; give",
        ),
        (results(tasks=0), "had no task; another instance may have them all, or it needs more"),
        (
            results(),
            "ran 2 tasks and processed 0 records; there was nothing new in lines and more",
        ),
        (results(3, sink=False), "ran 2 tasks and processed 3 records; its topology writes to no"),
        (results(3), "processed 3 records; none of them led to a record in counts"),
        (
            results(3, keep=False),
            "processed 3 records, wrote 0; with count= or timeout= it returns",
        ),
    ],
)
def test_it_says_what_it_did_and_what_would_help(found: RunResults, said: str) -> None:
    assert said in found.explain()


def test_where_only_committed_records_count_those_that_never_will_be_are_not_kept() -> None:
    app = App("words")
    app.stream("lines", key=bytes, value=bytes).to("copies")
    found = RunResults(app.topology(), keep=True, after_commit=True)
    for value, counts in ((b"1", False), (b"2", True)):
        found.produced([Output("copies", [b"a"], [value], [1])])
        assert found.count == 0
        found.settled(counts)
    found.produced([Output("copies", [b"a"], [b"3"], [1])])
    assert (found.count, [one.value for one in found.decoded()]) == (1, [b"2"])


def test_records_that_were_written_are_counted_where_they_are_not_kept() -> None:
    found = results(1, keep=False)
    found.produced([Output("counts", [b"a"], [bytes(8)], [1])])
    assert found.explain().endswith("wrote 1; with count= or timeout= it returns them")
    assert found.decoded() == []
