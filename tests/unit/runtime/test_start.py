"""Where a task begins to read when there is no commit to begin at."""

from __future__ import annotations

import pytest

import streamlet as sl
from streamlet.config import Settings
from streamlet.errors import BrokerError
from streamlet.group.messages import Committed
from streamlet.runtime.start import start_offsets
from streamlet.testing.ports import MemoryAdmin, MemoryLog
from streamlet.types import TaskId, TopicPartition

NOWHERE = Committed(-1, "")


def starts(reset: str, commit: Committed = NOWHERE) -> dict[str, int]:
    """First offsets of a word count's topics, each with ten records of which two are gone."""
    app = sl.App("words")
    app.stream("lines", key=str, value=str).group_by(lambda key, word: word).count(store="counts")
    topology, log = app.topology(), MemoryLog()
    inputs = [TopicPartition(t, 0) for t in (*topology.source_topics, *topology.repartition_topics)]
    for tp in inputs:
        log.create(tp.topic)
        log.append(tp, [b"k"] * 10, [b"v"] * 10)
        log.raise_start(tp, 2)
    tasks = {TaskId(part.id, 0): part for part in topology.subtopologies}
    settings = Settings.load({"auto.offset.reset": reset})
    found = start_offsets(tasks, dict.fromkeys(inputs, commit), MemoryAdmin(log), settings)
    return {"between" if tp.topic.startswith("words-") else "source": n for tp, n in found.items()}


@pytest.mark.parametrize(("reset", "source"), [("earliest", 2), ("latest", 10)])
def test_what_lies_between_subtopologies_is_read_from_its_start(reset: str, source: int) -> None:
    """The setting is about the input; records that were regrouped are not to be lost by it."""
    assert starts(reset) == {"source": source, "between": 2}


@pytest.mark.parametrize("outside", [1, 11])
def test_a_commit_outside_of_the_topic_is_none(outside: int) -> None:
    assert starts("latest", Committed(outside, "")) == {"source": 10, "between": 2}
    assert starts("latest", Committed(5, "")) == {"source": 5, "between": 5}


def test_without_a_policy_a_commit_that_retention_overtook_stays_where_it_is() -> None:
    """The task comes up, and is halted alone when its consumer finds nothing there."""
    assert starts("none", Committed(1, "")) == {"source": 1, "between": 2}


def test_without_a_place_to_begin_it_says_so() -> None:
    with pytest.raises(BrokerError, match=r"auto\.offset\.reset is none"):
        starts("none")
