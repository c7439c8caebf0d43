"""A query is followed to its end, or stopped behind a batch."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from streamlet.errors import SparkFailedError
from streamlet.spark.progress import BatchProgress, batches, follow

pytest.importorskip("pyspark")


class Scripted:
    """A query that gets on by one entry of its script each time it is waited for.

    An entry is the batch that has ended by then, or None where none has, and whether one is under
    way. Behind the script the query has ended.
    """

    def __init__(self, *script: tuple[int | None, bool], error: str = "") -> None:
        self._script, self._error = list(script), error
        self._reports: list[Any] = []
        #: How often all reports were asked for.
        self.asked = 0
        self.status = {"isTriggerActive": False}
        self.stopped = False

    @property
    def lastProgress(self) -> Any:
        return self._reports[-1] if self._reports else None

    @property
    def recentProgress(self) -> list[Any]:
        self.asked += 1
        return list(self._reports)

    def report(self, batch: int, *, idle: bool = False) -> None:
        durations = {"latestOffset": 1} if idle else {"addBatch": 1, "triggerExecution": 2}
        said = {"batchId": batch, "numInputRows": 5, "durationMs": durations}
        text = json.dumps(said | {"sources": [], "stateOperators": []})
        self._reports.append(SimpleNamespace(json=text))

    def awaitTermination(self, _: float) -> bool:
        if not self._script:
            if self._error:
                from pyspark.errors import StreamingQueryException

                raise StreamingQueryException(self._error)
            return True
        batch, busy = self._script.pop(0)
        if batch is not None:
            self.report(batch)
        self.status["isTriggerActive"] = busy
        return False

    def stop(self) -> None:
        self.stopped = True


def told(query: Any, answers: list[bool] | None = None) -> list[int]:
    batches: list[BatchProgress] = []
    left = answers or []
    follow(query, batches.append, keep_going=lambda: left.pop(0) if left else answers is None)
    return [one.batch for one in batches]


def test_every_batch_is_told_once() -> None:
    query = Scripted((None, True), (0, True), (1, False), (None, False))
    assert told(query) == [0, 1]
    assert not query.stopped


def test_all_reports_are_asked_for_only_where_several_may_be_new() -> None:
    query: Any = Scripted()
    assert batches(query) == []
    query.report(0, idle=True)
    assert batches(query) == []
    query.report(0)
    assert [one.batch for one in batches(query)] == [0]
    assert batches(query, 0) == []
    query.report(1, idle=True)
    assert batches(query, 0) == []
    query.report(1)
    assert [one.batch for one in batches(query, 0)] == [1]
    assert query.asked == 0
    query.report(2)
    query.report(3, idle=True)
    assert [one.batch for one in batches(query, 0)] == [1, 2]
    query.report(3)
    assert [one.batch for one in batches(query, 1)] == [2, 3]
    assert [one.batch for one in batches(query)] == [0, 1, 2, 3]
    assert query.asked == 3


def test_asked_to_stop_it_finishes_the_batch_under_way_and_no_other() -> None:
    query = Scripted((0, True), (None, True), (None, True), (1, True), (2, True))
    assert told(query, [False]) == [0, 1]
    assert query.stopped


def test_asked_to_stop_between_batches_it_stops() -> None:
    query = Scripted((0, False), (None, False), (None, False), (1, True))
    assert told(query, [True, False]) == [0]
    assert query.stopped


def test_who_will_not_wait_for_that_batch_ends_it_by_raising() -> None:
    query = Scripted((0, True), (None, True), (None, True), (1, True))
    answers = [True, False]

    def keep_going() -> bool:
        if not answers:
            raise KeyboardInterrupt
        return answers.pop(0)

    with pytest.raises(KeyboardInterrupt):
        follow(query, keep_going=keep_going)
    assert not query.stopped, "that is for who raised it"


def test_a_failure_is_told_by_what_spark_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def told_by(error: Exception) -> SparkFailedError:
        return SparkFailedError(f"failed: {error.args[0]}", by_chance=True)

    monkeypatch.setattr("streamlet.spark.progress.failure_of", told_by)
    with pytest.raises(SparkFailedError, match=r"^failed: the trace$"):
        told(Scripted((0, True), error="the trace"))
