"""``App.metadata_for_key`` and its like: where stores and keys are, as members report it."""

from __future__ import annotations

import pytest

import streamlet as sl
from streamlet.control.values import MemberKey, MemberProgress, StoreServer, TaskProgress
from streamlet.control.view import ControlView
from streamlet.state.query_errors import StreamsNotStartedError, UnknownStateStoreError
from streamlet.tasks.served_tasks import ServingWorker
from streamlet.types import TaskId


def _reported(number: int, *tasks: TaskProgress) -> MemberProgress:
    return MemberProgress(f"p{number}", 0, f"h{number}-0", "id", 0, "RUNNING", 1, tasks=tasks)


REPORTS = (
    _reported(0, TaskProgress("1_0", "active", "running"), TaskProgress("1_1", "standby", "ready")),
    _reported(
        1, TaskProgress("1_1", "active", "running"), TaskProgress("1_0", "learner", "learning")
    ),
)
VIEW = ControlView(
    progress={one.key: one for one in REPORTS},
    servers={MemberKey("p0", 0): StoreServer("p0", 0, "h0-0", "::1", 8080, "http")},
)


def test_a_key_is_at_the_member_that_runs_its_task_and_where_copies_are() -> None:
    app = sl.App("a")
    app.stream("in", key=str, value=str).repartition(name="by").group_by_key().count(store="counts")
    with pytest.raises(StreamsNotStartedError):
        app.metadata_for_key("counts", "k")
    with pytest.raises(StreamsNotStartedError):
        app.metadata_for_all()
    counts = {"in": 2, "a-by-repartition": 2}
    app._served.begin(
        ServingWorker(*(app.topology(), lambda: counts, lambda: True, lambda: None, lambda: VIEW))
    )
    with pytest.raises(UnknownStateStoreError):
        app.metadata_for_store("nowhere")
    found = app.metadata_for_all()
    assert [(one.member, one.server, one.url) for one in found] == [
        ("h0-0", "[::1]:8080", "http://[::1]:8080"),
        ("h1-0", None, None),
    ]
    assert (found[0].active, found[0].copies) == ((TaskId(1, 0),), (TaskId(1, 1),))
    assert app.metadata_for_store("counts") == found
    there = {app.metadata_for_key("counts", f"k{number}").active for number in range(20)}
    assert there == set(found)
    one = app.metadata_for_key("counts", "k0")
    assert one.active != one.copies[0]
