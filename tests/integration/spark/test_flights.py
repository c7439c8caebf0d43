"""The flights by Spark: a join, aggregations, windows, four subtopologies in two stages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streamlet.config import Settings
from streamlet.kafka.client import KafkaAdmin
from streamlet.spark import start
from streamlet.spark.progress import BatchProgress, follow
from streamlet.testing import TopologyTestDriver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pandas")

from examples.flights import app, data, expected, records

pytestmark = [pytest.mark.spark, pytest.mark.integration]

FLIGHTS = 1_300

#: Runs of Spark: from which flight to which, so many to a batch at most, and what is written.
PARTS = ((0, 1_200, 400, "updates"), (1_200, 1_260, 30, "latest"), (1_260, 1_300, 10, "updates"))


@pytest.fixture
def broker(bootstrap_servers: str) -> Iterator[str]:
    """The address of a broker with the flights' topics, empty."""
    records.create_topics(bootstrap_servers)
    yield bootstrap_servers
    delete_topics(bootstrap_servers)


def delete_topics(broker: str) -> None:
    admin = KafkaAdmin(broker)
    internal = [name for name in admin.topics() if name.startswith(f"{app.app.name}-")]
    admin.delete_topics([*records.INPUTS, *records.OUTPUTS, *internal])
    admin.close()


def send(broker: str, topic: str, events: list[data.Event]) -> None:
    sender = records.Events(broker)
    sender.send(topic, iter(events))
    sender.flush()


def results(broker: str) -> dict[str, Any]:
    """The last value of every key."""
    reader = records.ResultReader(broker)
    try:
        reader.read_to_end()
        return dict(reader.results)
    finally:
        reader.close()


def by_spark(spark: SparkSession, broker: str, checkpoint: Path, most: int, output: Any) -> int:
    """Process what is there in batches of so many flights at most; how many batches it took."""
    told: list[BatchProgress] = []
    query = start(
        app.app,
        spark,
        checkpoint=checkpoint,
        trigger="available-now",
        bootstrap_servers=broker,
        max_records_per_batch=most,
        output=output,
    )
    try:
        follow(query, told.append)
    finally:
        query.stop()
    return len(told)


def natively(broker: str, folder: Path, outputs: int) -> dict[str, Any]:
    settings = Settings.load({"bootstrap.servers": broker, "state.dir": folder})
    app.app.run(count=outputs, timeout=300, settings=settings)
    return results(broker)


def in_the_test_driver(events: dict[str, list[data.Event]]) -> tuple[dict[str, Any], int]:
    """The last value of every key, and how many records were written in all."""
    found: dict[str, Any] = {}
    counts = dict.fromkeys(records.INPUTS, records.PARTITIONS)  # which hours close depends on them
    with TopologyTestDriver(app.app, partitions=counts) as driver:
        for topic, of_topic in events.items():
            for event in of_topic:
                pair = (event.key.encode(), event.value)
                driver.pipe_bytes(topic, *pair, event.timestamp_ms)
        written = {topic: driver.read_output(topic) for topic in records.OUTPUTS}
    for topic in records.RESULTS:
        hours = topic == "delays-by-hour"
        found[topic] = {
            expected.hour_name(*record.key[:2]) if hours else record.key: vars(record.value)
            for record in written[topic]
        }
    return found, sum(map(len, written.values()))


def test_driver_native_run_spark_and_pandas_agree_also_in_tiny_batches_over_restarts(
    spark: SparkSession, broker: str, tmp_path: Path
) -> None:
    flights, airlines = data.load_flights(FLIGHTS), data.load_airlines()
    events = {
        "airlines": list(data.airline_events(airlines)),
        "flights": list(data.flight_events(flights)),
        "departures": list(data.departure_events(flights)),
    }
    wanted, outputs = in_the_test_driver(events)
    for topic, of_topic in events.items():
        send(broker, topic, of_topic)
    native = natively(broker, tmp_path / "state", outputs)
    delete_topics(broker)
    records.create_topics(broker)
    send(broker, "airlines", events["airlines"])
    for begin, end, most, output in PARTS:
        for topic in ("flights", "departures"):
            send(broker, topic, events[topic][begin:end])
        batches = by_spark(spark, broker, tmp_path / "checkpoint", most, output)
        assert batches >= (end - begin) // (most + records.PARTITIONS)
    found = results(broker)
    assert found == wanted
    assert native == wanted
    assert len(found["delays-by-hour"]) > 50
    assert expected.all_differences(found, flights, airlines) == []
