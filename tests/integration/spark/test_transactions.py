"""Inputs that others write in transactions, on Spark: aborted ones do not count, open ones wait."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from streamlet.config import Settings
from streamlet.spark import start
from streamlet.spark.progress import BatchProgress, HeldBack, follow
from streamlet.types import TopicPartition
from tests.integration.spark import words

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.integration]

#: Records of a micro-batch at most, fewer than of a transaction.
FEW = 8


class Writer:
    """A producer with transactions, to one partition of the lines."""

    def __init__(self, servers: str, name: str) -> None:
        self.producer = Producer({"bootstrap.servers": servers, "transactional.id": name})
        self.producer.init_transactions()

    def write(self, word: str, count: int, end: str = "") -> None:
        """One transaction; ``end`` is commit, abort or "" to leave it open."""
        self.producer.begin_transaction()
        for _ in range(count):
            self.producer.produce("lines", word.encode(), partition=0)
        self.producer.flush()
        if end:
            getattr(self.producer, f"{end}_transaction")()


def run(
    spark: SparkSession, bootstrap: str, checkpoint: Path, isolation: str = "read_committed"
) -> tuple[list[BatchProgress], HeldBack]:
    """All there is to read in batches of few records; these, and what was held back at the end."""
    query = start(
        words.APP,
        spark,
        checkpoint=checkpoint,
        trigger="available-now",
        bootstrap_servers=bootstrap,
        max_records_per_batch=FEW,
        settings=Settings.load({"consumer.isolation.level": isolation}),
    )
    batches: list[BatchProgress] = []
    held: list[HeldBack] = []
    try:
        follow(query, batches.append, on_held=held.append)
    finally:
        query.stop()
    return batches, held[-1]


def test_a_batch_ends_at_an_open_transaction_and_aborted_records_do_not_count(
    spark: SparkSession, topics: str, tmp_path: Path
) -> None:
    one, other = Writer(topics, "one"), Writer(topics, "other")
    one.write("kept", 3, "commit")
    one.write("aborted", 2 * FEW, "abort")
    other.write("later", 2)
    one.write("behind", 2, "commit")
    where, held_at = TopicPartition("lines", 0), 3 + 1 + 2 * FEW + 1
    batches, held = run(spark, topics, tmp_path)
    assert held.offsets == {where: held_at}
    assert batches[-1].lag == 0
    assert dict(words.consume(topics)) == {"kept": 3}
    other.producer.abort_transaction()
    one.write("last", 1, "commit")
    assert run(spark, topics, tmp_path)[1].offsets == {}
    assert dict(words.consume(topics)) == {"kept": 3, "behind": 2, "last": 1}
