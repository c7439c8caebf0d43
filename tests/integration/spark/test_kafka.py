"""From Kafka to Kafka by Spark, against a real broker."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

import streamlet.spark
from streamlet.app import App
from streamlet.config import Settings
from streamlet.errors import (
    MissingTopicError,
    PositionsMismatchError,
    StreamletError,
)
from streamlet.kafka.client import KafkaAdmin
from streamlet.spark import start
from streamlet.spark.progress import BatchProgress, Ends, follow
from streamlet.testing import TopologyTestDriver
from streamlet.tools.main import build
from streamlet.types import TopicPartition
from tests.integration.spark import words

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.integration]

LINES = ["the quick fox", "the lazy dog; the fox", "", "a dog", "quick quick"] * 20


def run(
    spark: SparkSession, bootstrap: str, checkpoint: Path, *, app: App = words.APP, **how: object
) -> list[BatchProgress]:
    told: list[BatchProgress] = []
    query = start(
        app,
        spark,
        checkpoint=checkpoint,
        trigger="available-now",
        bootstrap_servers=bootstrap,
        **how,  # type: ignore[arg-type]
    )
    try:
        follow(query, told.append, ends=ends_of(bootstrap))
    finally:
        query.stop()
    return told


def ends_of(bootstrap: str) -> Ends:
    """The ends of partitions, as a run asks for them."""

    def ends(partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        admin = KafkaAdmin(bootstrap)
        try:
            return admin.end_offsets(partitions)
        finally:
            admin.close()

    return ends


def test_word_count_reads_kafka_and_writes_kafka_and_goes_on_from_its_checkpoint(
    spark: SparkSession, topics: str, tmp_path: Path
) -> None:
    words.produce(topics, LINES[:60])
    told = run(spark, topics, tmp_path, max_records_per_batch=25)
    assert [one.batch for one in told] == list(range(len(told)))
    assert sum(one.records for one in told) == 60
    # Each of the four partitions gives its share, rounded up.
    assert max(one.records for one in told) <= 25 + 4
    assert told[-1].lag == 0
    assert told[-1].state_bytes > 0
    words.produce(topics, LINES[60:])
    run(spark, topics, tmp_path, output="latest")
    found = words.consume(topics)
    with TopologyTestDriver(words.APP) as driver:
        driver.pipe_inputs("lines", [(None, line) for line in LINES])
        wanted = {r.key: r.value for r in driver.read_output("word-counts")}
    assert dict(found) == wanted
    for word, count in words.counted(LINES[:60]).items():
        # Every update of the first run, in order, then the last of the second's only batch.
        counts = [c for w, c in found if w == word]
        assert counts == [*range(1, count + 1), wanted[word]]
    check_topics_made_again(spark, topics, tmp_path)


def check_topics_made_again(spark: SparkSession, bootstrap: str, checkpoint: Path) -> None:
    """With more records than before: offsets alone would not tell."""
    words.create_topics(bootstrap)
    words.produce(bootstrap, LINES * 2)
    with pytest.raises(PositionsMismatchError, match="topic lines was created again") as refused:
        run(spark, bootstrap, checkpoint)
    assert refused.value.exit_code == 5
    assert words.consume(bootstrap) == []


def test_the_first_batch_after_a_restart_says_what_waits(
    spark: SparkSession, topics: str, tmp_path: Path
) -> None:
    """It was planned before the restart, and nothing asks for the topics' ends then."""
    words.produce(topics, LINES[:20])
    run(spark, topics, tmp_path)
    for file in (tmp_path / "commits").iterdir():
        if file.name in ("0", ".0.crc"):
            file.unlink()  # as if the run had ended before
    words.produce(topics, LINES[20:60])
    first, *_, last = run(spark, topics, tmp_path)
    assert (first.batch, first.records, first.lag) == (0, 20, 40)
    assert sum(first.lags.values()) == 40
    assert last.lag == 0


def test_a_run_of_what_is_there_ends_by_itself(
    spark: SparkSession, topics: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command uses the session there is."""
    monkeypatch.setattr(streamlet.spark, "session", lambda *_, **__: spark)
    monkeypatch.setattr(streamlet.spark, "stop", lambda _: None)
    words.produce(topics, LINES)
    line = ["run", "examples.wordcount:app", "--engine", "spark", "--json", "--trigger"]
    line += ["available-now", "--checkpoint", str(tmp_path), "--bootstrap-servers", topics]
    found = CliRunner().invoke(build(), line)
    assert found.exit_code == 0, found.output
    answer = json.loads(found.stdout)
    assert (answer["records"], answer["lag"], answer["error"]) == (len(LINES), 0, None)
    words.check_exact(words.consume(topics), LINES)


def test_driver_native_run_and_spark_agree_also_in_tiny_batches_over_restarts(
    spark: SparkSession, topics: str, tmp_path: Path
) -> None:
    lines = LINES[:15]
    words.produce(topics, lines)
    settings = Settings.load({"bootstrap.servers": topics, "state.dir": tmp_path / "state"})
    updates = sum(words.counted(lines).values())
    words.AGREEING.run(count=updates, timeout=300, settings=settings)
    native = words.consume(topics)
    words.create_topics(topics)  # empty again
    for at in range(0, len(lines), 5):
        words.produce(topics, lines[at : at + 5])
        run(
            spark,
            topics,
            tmp_path / "checkpoint",
            app=words.AGREEING,
            max_records_per_batch=2,
        )
    on_spark = words.consume(topics)
    with TopologyTestDriver(words.AGREEING) as driver:
        driver.pipe_inputs("lines", [(None, line) for line in lines])
        wanted = [(r.key, r.value) for r in driver.read_output("word-counts")]
    assert dict(native) == dict(on_spark) == dict(wanted)
    # Not only the last values: every update is there, each once.
    assert sorted(native) == sorted(on_spark) == sorted(wanted)


def test_a_record_that_cannot_be_read_becomes_a_dead_letter(
    spark: SparkSession, topics: str, tmp_path: Path
) -> None:
    words.produce(topics, ["a b", b"\xff\xfe", "b"])
    run(spark, topics, tmp_path, app=words.CAREFUL)
    assert dict(words.consume(topics)) == {"a": 1, "b": 2}
    ((value, headers),) = words.letters(topics)
    assert value == b"\xff\xfe"
    assert headers["streamlet.application"] == b"careful"
    assert headers["streamlet.topic"] == b"lines"
    assert headers["streamlet.error"] == b"SerdeError"


def test_a_record_that_fails_ends_the_query_and_is_named(
    spark: SparkSession, topics: str, tmp_path: Path
) -> None:
    words.produce(topics, [b"\xff\xfe"])
    with pytest.raises(StreamletError, match=r"query failed: undecodable record .* at lines-\d"):
        run(spark, topics, tmp_path)
    assert words.consume(topics) == []


def test_a_topic_that_is_not_there_is_named(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    with pytest.raises(MissingTopicError, match="does not exist: lines, word-counts"):
        start(words.APP, spark, checkpoint=tmp_path, bootstrap_servers=bootstrap_servers)
