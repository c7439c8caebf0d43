"""Where a task begins to read when there is no commit to begin at."""

from __future__ import annotations

import pytest

import streamlet as sl
from streamlet.config import Settings
from streamlet.errors import BrokerError, TopologyError
from streamlet.tasks.start import LogRanges, input_ranges
from streamlet.testing.memory_ports import MemoryAdmin, MemoryLog
from streamlet.types import TopicPartition

NOW_MS = 1_700_000_000_000


def starts(
    reset: str, commit: int = -1, *, later: bool = False, since: str | None = None
) -> dict[str, int]:
    """First offsets of a word count's topics: a record each second, the first two of ten gone."""
    app = sl.App("words")
    age = None if since is None else sl.by_duration(since)
    app.stream("lines", key=str, value=str, reset=age).group_by(lambda key, word: word).count(
        store="counts"
    )
    topology, log = app.topology(), MemoryLog()
    inputs = [TopicPartition(t, 0) for t in (*topology.source_topics, *topology.repartition_topics)]
    for tp in inputs:
        log.create(tp.topic)
        log.append(tp, [b"k"] * 10, [b"v"] * 10, range(NOW_MS - 10_000, NOW_MS, 1_000))
        log.raise_start(tp, 2)
    parts = {
        tp: part
        for part in topology.subtopologies
        for tp in part.inputs(0, dict.fromkeys(part.input_topics, 1))
    }
    settings = Settings.load({"auto.offset.reset": reset})
    admin = MemoryAdmin(log)
    ranges = LogRanges.read(admin, list(parts), settings.read_committed)
    found = input_ranges(parts, ranges, admin, settings, lambda tp: later, now_ms=NOW_MS)
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


@pytest.mark.parametrize(
    ("since", "source"), [("3s", 7), ("3500ms", 7), ("1ms", 10), ("1h", 2), ("10000d", 2)]
)
def test_a_source_begins_a_time_before_now_without_a_usable_commit(since: str, source: int) -> None:
    assert starts("latest", since=since) == {"source": source, "between": 2}
    assert starts("latest", 1, since=since)["source"] == source, "retention overtook a commit"
    assert starts("latest", 4, since=since)["source"] == 4
    assert starts("latest", later=True, since=since)["source"] == 2


@pytest.mark.parametrize("time", ["", "-1s", "soon", 1.5, -1, None])
def test_a_time_before_now_that_is_none_is_refused(time: object) -> None:
    with pytest.raises(TopologyError, match="by_duration"):
        sl.by_duration(time)  # type: ignore[arg-type]
