"""State of a task on Spark goes to its changelogs as a native task reads them."""

from __future__ import annotations

import streamlet as sl
from streamlet.spark.state.changelogs import changelog_outputs, state_number
from streamlet.state.backing import Columns
from streamlet.state.changelog import ChangelogReader
from streamlet.state.drained import Drained
from tests.unit.state.changelog_log import batch_of


def test_a_native_reader_believes_the_records_up_to_the_commit_of_the_backfill() -> None:
    app = sl.App("words")
    table = app.table("names", key=str, value=str, store="names")
    stream = app.stream("lines", key=str, value=str)
    stream.join(table, lambda one, other: one + other).group_by_key().count(store="counts")
    (part,) = app.topology().subtopologies
    drained = Drained(
        {
            "counts": Columns("counts", [b"a", b"b"], [b"1", None]),
            "names": Columns("names", [b"a"], [b"x"]),
        },
        {},
    )
    (output,) = changelog_outputs(part, 3, drained, 7, 1_000)
    assert (output.topic, output.partitions) == ("words-counts-changelog", [3, 3])
    reader = ChangelogReader("words-counts-changelog-3", state_number(7))
    batch = batch_of([0, 1], output.keys, output.values, output.headers)
    assert reader.read(batch) == ([b"a", b"b"], [b"1", None])
    before = ChangelogReader("words-counts-changelog-3", state_number(6))
    assert before.read(batch) == ([], [])
