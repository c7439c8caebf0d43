"""Records on Spark whose times their topics refuse: each is one for the policy, as natively."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import pytest

import streamlet as sl
from streamlet.clock import SystemClock
from streamlet.config import Settings
from streamlet.errors import ProcessingError, RecordRefusedError, StreamletError
from streamlet.kafka.limits import TopicLimits
from streamlet.processing.outputs import Output
from streamlet.spark import backfill
from streamlet.spark.kafka.written_topics import WrittenTopics
from streamlet.spark.plan.plan import plan
from streamlet.spark.plan.prepare import QueryRequest
from streamlet.spark.rows.refused_times import RefusedTimes
from tests.unit.spark.staged import Record, StagedQuery

HOUR = {"message.timestamp.after.max.ms": "3600000"}
DAY_AHEAD = SystemClock().wall_ms() + 86_400_000


def by_policy(name: str, policy: Any, *, counted: bool, chosen: bool) -> sl.App:
    app = sl.App(name, on_error=policy)
    stream = app.stream("in", key=str, value=str)
    if counted:
        counts = stream.group_by_key().count(store="n").to_stream()
        stream = counts.map_values(str, value=str)
    stream.to((lambda key, value: "out") if chosen else "out")
    return app


APPS = {
    f"{policy}_{counted}_{chosen}": by_policy(
        f"{policy}-{counted}-{chosen}",
        ("dead_letter", "dead") if policy == "dead_letter" else policy,
        counted=counted,
        chosen=chosen,
    )
    for policy in ("skip", "dead_letter", "fail")
    for counted in (False, True)
    for chosen in (False, True)
}
globals().update(APPS)


def query(
    name: str, monkeypatch: pytest.MonkeyPatch, *, chosen: bool, epoch: int | None = None
) -> StagedQuery:
    def ask(self: object, topics: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        assert list(topics) == ["out"], "a topic is asked for once, if it was not at the start"
        return {"out": HOUR}

    monkeypatch.setattr(WrittenTopics, "_ask", ask)
    known = {"dead": HOUR} if chosen else {"out": HOUR, "dead": HOUR}
    written = WrittenTopics(TopicLimits.of(known, {}), f"broker-of-{name}")
    laid_out = plan(f"{__name__}:{name}", APPS[name].topology(), {"in": 1})
    return StagedQuery(attrs.evolve(laid_out, written=written), epoch)


@pytest.mark.parametrize("chosen", [False, True], ids=["by name", "by record"])
@pytest.mark.parametrize("counted", [False, True], ids=["stateless", "stage"])
def test_a_time_that_a_topic_refuses_is_one_for_the_policy(
    monkeypatch: pytest.MonkeyPatch, counted: bool, chosen: bool
) -> None:
    records: list[Record] = [
        ("in", "a", "1", 5),
        ("in", "b", "1", DAY_AHEAD),
        ("in", "c", "1", 7),
    ]
    taken = [("out", "a", "1", 5), ("out", "c", "1", 7)]
    skipping = query(f"skip_{counted}_{chosen}", monkeypatch, chosen=chosen)
    assert skipping.batch(records) == taken
    letters = query(f"dead_letter_{counted}_{chosen}", monkeypatch, chosen=chosen)
    found = letters.batch(records)
    assert [record for record in found if record[0] == "out"] == taken
    ((_, key, value, time),) = [record for record in found if record[0] == "dead"]
    assert (key, value) == ("b", "1")
    assert time < DAY_AHEAD, "that of the writing"
    failing = query(f"fail_{counted}_{chosen}", monkeypatch, chosen=chosen)
    where = r"to out was refused: its time, \d+, is .* ahead of the clock of this host, .*after"
    with pytest.raises(ProcessingError, match=where + ".* at in-0 offset 1"):
        failing.batch(records)


def test_a_backfill_keeps_the_state_of_a_result_that_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Changelogs take every time."""
    skipping = query("skip_True_False", monkeypatch, chosen=False, epoch=3)
    found = skipping.batch([("in", "a", "1", 5), ("in", "b", "1", DAY_AHEAD)])
    assert [record for record in found if record[0] == "out"] == [("out", "a", "1", 5)]
    kept = [key for topic, key, *_ in found if topic != "out"]
    assert sorted(kept) == ["a", "b"]


@pytest.mark.parametrize("output", ["updates", "latest", "none"])
def test_a_backfill_that_writes_no_results_refuses_none(
    monkeypatch: pytest.MonkeyPatch, output: Any
) -> None:
    wishes: list[QueryRequest] = []

    def prepare(*given: Any) -> None:
        wishes.extend(one for one in given if isinstance(one, QueryRequest))
        raise StreamletError("not further")

    monkeypatch.setattr(backfill, "prepare", prepare)
    name = f"{__name__}:skip_True_False"
    wanted = backfill.BackfillQuery(name, None, Settings.load(), {}, output, None, "")  # type: ignore[arg-type]
    with pytest.raises(StreamletError, match="not further"):
        wanted.prepared({}, {"in": 1, "out": 1})
    assert [one.writes for one in wishes] == [output != "none"]


def test_results_of_spark_sql_have_no_record_to_name(caplog: pytest.LogCaptureFixture) -> None:
    written = WrittenTopics(TopicLimits.of({"out": HOUR}, {}))
    output = Output("out", [b"a", b"b", b"c"], [b"1", b"2", b"3"], [5, DAY_AHEAD, 7])
    policies = [sl.App("a", on_error=on_error).policy for on_error in ("skip", "fail")]
    skipping, failing = (RefusedTimes(written, frozenset(), policy) for policy in policies)
    found = skipping.of_aggregates(output)
    assert (found.keys, found.values, found.timestamps) == ([b"a", b"c"], [b"1", b"3"], [5, 7])
    assert "1 results are left out: a record to out was refused" in caplog.text
    with pytest.raises(RecordRefusedError, match=r"to out was refused: .*after\.max\.ms"):
        failing.of_aggregates(output)
