"""Where a task begins to read when there is no commit to begin at."""

from __future__ import annotations

import pytest

import streamlet as sl
from streamlet.config import Settings
from streamlet.errors import BrokerError
from streamlet.tasks.start import input_ranges
from streamlet.types import TopicPartition
from tests.memory_ports import MemoryAdmin, MemoryLog


def starts(reset: str, commit: int = -1, *, later: bool = False) -> dict[str, int]:
    """First offsets of a word count's topics, each with ten records of which two are gone."""
    app = sl.App("words")
    app.stream("lines", key=str, value=str).group_by(lambda key, word: word).count(store="counts")
    topology, log = app.topology(), MemoryLog()
    inputs = [TopicPartition(t, 0) for t in (*topology.source_topics, *topology.repartition_topics)]
    for tp in inputs:
        log.create(tp.topic)
        log.append(tp, [b"k"] * 10, [b"v"] * 10)
        log.raise_start(tp, 2)
    parts = {
        tp: part
        for part in topology.subtopologies
        for tp in part.inputs(0, dict.fromkeys(part.input_topics, 1))
    }
    settings = Settings.load({"auto.offset.reset": reset})
    found = input_ranges(parts, MemoryAdmin(log), settings, lambda tp: later)
    return {
        "between" if tp.topic.startswith("words-") else "source": one.start(tp, commit)
        for tp, one in found.items()
    }


@pytest.mark.parametrize(("reset", "source"), [("earliest", 2), ("latest", 10)])
def test_what_lies_between_subtopologies_is_read_from_its_start(reset: str, source: int) -> None:
    """The setting is about the input; records that were regrouped are not to be lost by it."""
    assert starts(reset) == {"source": source, "between": 2}


@pytest.mark.parametrize(("later", "start"), [(True, 2), (False, 10)])
def test_what_came_while_the_application_ran_is_read_whole(later: bool, start: int) -> None:
    """Its records came after the application, also those before a worker had noticed it."""
    assert starts("latest", later=later)["source"] == start
    assert starts("earliest", later=later)["source"] == 2
    assert starts("latest", 1, later=later)["source"] == 10, "retention overtook a commit"
    with pytest.raises(BrokerError, match=r"auto\.offset\.reset is none"):
        starts("none", later=later)


def test_a_commit_before_the_first_record_is_none() -> None:
    assert starts("latest", 1) == {"source": 10, "between": 2}
    assert starts("latest", 5) == {"source": 5, "between": 5}


def test_a_commit_behind_the_end_never_goes_back_to_the_start() -> None:
    assert starts("earliest", 11) == {"source": 10, "between": 10}


def test_without_a_policy_a_commit_that_retention_overtook_stays_where_it_is() -> None:
    """The task comes up, and is halted alone when its consumer finds nothing there."""
    assert starts("none", 1) == {"source": 1, "between": 2}


def test_without_a_place_to_begin_it_says_so() -> None:
    with pytest.raises(BrokerError, match=r"auto\.offset\.reset is none"):
        starts("none")
