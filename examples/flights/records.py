"""Puts the flights into Kafka at a steady pace, and reads what the application makes of them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pandas as pd
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from examples.flights.data import Event, departure_events, flight_events
from examples.flights.expected import Results, hour_name
from examples.flights.handovers import Arrivals
from examples.flights.instances import streamlet
from streamlet import RepeatFilter, windowed_json

PARTITIONS = 4
INPUTS = ("airlines", "flights", "departures")
RESULTS = ("delays-by-airline", "delays-by-origin", "delays-by-hour")
OUTPUTS = ("named-flights", *RESULTS)
_HOUR = windowed_json(str)
_TIMEOUT_S = 30


class Undelivered(Exception):
    """The broker did not take an event."""


def create_topics(bootstrap: str) -> None:
    """All topics the application reads and writes; its internal ones it makes itself.

    In those it writes the broker notes when it took each record.
    """
    stamped = ["--topic-config", "message.timestamp.type=LogAppendTime"]
    for words in (INPUTS, (*OUTPUTS, *stamped)):
        command = streamlet("topics", "create", *words, "--partitions", str(PARTITIONS))
        subprocess.run(
            [*command, "--bootstrap-servers", bootstrap],
            check=True,
            stdout=subprocess.DEVNULL,
        )


class Events:
    """Produces events, Java's partitions for their keys."""

    def __init__(self, bootstrap: str) -> None:
        self._failed: list[KafkaError] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "linger.ms": 20,
                "log_level": 0,  # what fails is told by delivery reports
                "queue.buffering.max.messages": 1_000_000,
                "on_delivery": self._delivered,
                "delivery.report.only.error": True,
            }
        )

    def send(self, topic: str, events: Iterator[Event]) -> None:
        """Hand them to the producer."""
        for key, value, timestamp_ms in events:
            self._producer.produce(topic, value, key, timestamp=timestamp_ms)
        self._producer.poll(0)

    def flush(self) -> None:
        """Wait until all are delivered.

        Raises:
            Undelivered: some are not.
        """
        left = self._producer.flush(_TIMEOUT_S)
        if left or self._failed:
            raise Undelivered(f"{left + len(self._failed)} events; {self._failed[:1]}")

    def _delivered(self, error: KafkaError | None, _: Any) -> None:
        if error is not None:
            self._failed.append(error)


class Playback:
    """Sends flights, and their departures, at a steady pace.

    Args:
        events: takes them.
        flights: in the order of time.
        seconds: how long all of them take.
    """

    def __init__(self, events: Events, flights: pd.DataFrame, seconds: float) -> None:
        self._events = events
        self._coming = {"flights": flight_events(flights), "departures": departure_events(flights)}
        self._seconds = seconds
        self.total = len(flights)
        self.produced = 0

    def play(self, elapsed_s: float) -> None:
        """Send the flights that are due so many seconds after the beginning.

        Raises:
            Undelivered: some are not delivered, after the last one was sent.
        """
        due = min(self.total, int(self.total * elapsed_s / self._seconds))
        if due <= self.produced:
            return
        for topic, events in self._coming.items():
            self._events.send(topic, islice(events, due - self.produced))
        self.produced = due
        if due == self.total:
            self._events.flush()


class ResultReader:
    """The last value per key of the topics with results, as far as they were read."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "flights-demo-reader",
                "enable.auto.commit": False,
                "fetch.queue.backoff.ms": 5,
                "log_level": 0,
            }
        )
        self._position = {(topic, p): 0 for topic in RESULTS for p in range(PARTITIONS)}
        self._consumer.assign([TopicPartition(*where, 0) for where in self._position])
        self.results: dict[str, Results] = {topic: {} for topic in RESULTS}
        self.arrivals = Arrivals()

    @property
    def processed(self) -> int:
        """Flights that went all the way: to the results by airline, and to those by origin."""
        return min(
            sum(result["flights"] for result in self.results[topic].values())
            for topic in ("delays-by-airline", "delays-by-origin")
        )

    @property
    def hours(self) -> Results:
        """The hours that were closed, by ``expected.hour_name``."""
        return self.results["delays-by-hour"]

    def read(self, timeout_s: float = 0.0) -> None:
        """Take what is there. Every update is in the topics; only the last per key is decoded."""
        last: dict[tuple[str, bytes], bytes] = {}
        messages: list[Any] = self._consumer.consume(50_000, timeout_s)
        for message in messages:
            if message.error() is None:
                topic, partition = message.topic(), message.partition()
                last[topic, message.key()] = message.value()
                self._position[topic, partition] = message.offset() + 1
                self.arrivals.tell(topic, partition, message.timestamp()[1])
        for (topic, key), value in last.items():
            name = key.decode() if topic != "delays-by-hour" else hour_name(*_HOUR.decode(key)[:2])
            self.results[topic][name] = json.loads(value)

    def read_to_end(self) -> None:
        """Take everything there is now."""
        ends = {
            (topic, partition): self._end(topic, partition) for topic, partition in self._position
        }
        while any(self._position[where] < end for where, end in ends.items()):
            self.read(0.5)

    def count(self, topic: str) -> tuple[int, int]:
        """Records of a topic with origins: those that repeat no other, and all."""
        ends = {partition: self._end(topic, partition) for partition in range(PARTITIONS)}
        left = {partition for partition, end in ends.items() if end}
        repeats, new = RepeatFilter(), 0
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in left])
        while left:
            for message in self._consumer.consume(50_000, _TIMEOUT_S / 10):
                partition, offset = message.partition(), message.offset()
                new += repeats.takes(topic, partition, offset, message.headers())
                if offset + 1 >= ends[partition]:
                    left.discard(partition)
        return new, sum(ends.values())

    def close(self) -> None:
        """Leave the broker alone."""
        self._consumer.close()

    def _end(self, topic: str, partition: int) -> int:
        where = TopicPartition(topic, partition)
        return int(self._consumer.get_watermark_offsets(where, timeout=_TIMEOUT_S)[1])
