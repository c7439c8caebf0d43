"""What open transactions hold back on Spark: reported beside the ends, named, never waited for."""

from __future__ import annotations

from typing import Any, cast

import pytest

from streamlet.errors import BrokerError
from streamlet.spark.kafka import held
from streamlet.spark.progress import BatchProgress, HeldBack
from streamlet.tools.output import CommandOutput
from streamlet.tools.run_spark import SparkReport
from streamlet.types import TopicPartition

READABLE = {"lines": {"0": 4, "1": 7}}
ENDS = {"lines": {"0": 9, "1": 7}}
WHERE = TopicPartition("lines", 0)


def test_only_what_is_held_back_is_reported() -> None:
    assert held.reported(READABLE, READABLE) == READABLE
    found = held.reported(READABLE, ENDS)
    assert found == {**READABLE, "#held": {"lines": {"0": 4}}}
    assert held.held_in(found) == {WHERE: 4}
    assert held.held_in(READABLE) == {}


def test_a_planned_batch_waits_for_no_open_transaction() -> None:
    held.check(READABLE, READABLE, ENDS)
    with pytest.raises(BrokerError, match=r"since offset 4 of lines-0 holds back"):
        held.check(ENDS, READABLE, ENDS)


def test_a_position_behind_the_last_stable_offset_waits_and_is_no_lost_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A query that took all records goes on with ``read_committed``."""
    pytest.importorskip("pyspark")
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    from streamlet.spark.kafka.clients import Clients
    from streamlet.spark.kafka.python_kafka import KafkaReader, SourceSettings

    said = {"start": {"lines": {"0": 0, "1": 0}}, "readable": READABLE, "end": ENDS}
    monkeypatch.setattr(KafkaReader, "_ask", lambda self, which: said[which])
    monkeypatch.setattr(KafkaReader, "_ids", lambda self: {"lines": "id"})
    clients = Clients("", {"isolation.level": "read_committed"})
    settings = SourceSettings(clients, cast(Any, None), {}, None, False, None, 3)
    reader = KafkaReader(settings)
    at_the_end: dict[str, dict[str, Any]] = {**ENDS, "#ids": {"lines": "id"}}
    assert reader.latestOffset(at_the_end, ReadAllAvailable()) == at_the_end
    assert reader.reportLatestOffset()["#held"] == {"lines": {"0": 4}}
    begin: dict[str, dict[str, Any]] = {"lines": {"0": 0, "1": 0}}
    assert reader.latestOffset(begin, ReadAllAvailable())["lines"] == READABLE["lines"]
    again = KafkaReader(settings)
    with pytest.raises(BrokerError, match="planned without consumer"):
        again.partitions(begin, at_the_end)


def report(seconds: int, latest: dict[str, Any]) -> dict[str, Any]:
    source = {"endOffset": READABLE, "latestOffset": latest}
    return {"timestamp": f"2026-11-27T15:00:{seconds:02}.000Z", "sources": [source]}


def test_a_report_of_spark_has_it_and_it_is_no_lag() -> None:
    progress = report(1, held.reported(READABLE, ENDS))
    assert HeldBack.of(progress).offsets == {WHERE: 4}
    assert HeldBack.of(report(1, READABLE)).offsets == {}
    more = {"batchId": 1, "numInputRows": 0, "durationMs": {}, "stateOperators": []}
    assert BatchProgress.of(progress | more).lag == 0


def test_a_transaction_is_named_once_it_is_open_for_long(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("prometheus_client")
    from streamlet.spark.metrics import QueryMetrics
    from streamlet.spark.restarts import Restarts

    one = SparkReport(CommandOutput(as_json=True), QueryMetrics("a"), Restarts(1))
    latest = held.reported(READABLE, ENDS)
    for seconds, said in ((0, 0), (9, 0), (10, 1), (20, 0)):
        one.held_back(HeldBack.of(report(seconds, latest)))
        assert capsys.readouterr().err.count("since offset 4 of lines-0") == said, seconds
    one.held_back(HeldBack.of(report(30, held.reported({"lines": {"0": 5, "1": 7}}, ENDS))))
    one.ended("a", "checkpoint")
    out, err = capsys.readouterr()
    assert "since offset 5 of lines-0" in err
    assert '"held": [{"topic": "lines", "partition": 0, "offset": 5}]' in out
