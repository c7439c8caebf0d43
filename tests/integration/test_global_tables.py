"""A global table on a real broker: read before records are, kept over a restart, and followed."""

from __future__ import annotations

import logging
import threading
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Producer

import streamlet as sl
from streamlet.hosting.clients import open_control
from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.ports import NewTopic
from tests.integration.chaos.support import wait_for

pytestmark = pytest.mark.integration


def copies(app: sl.App) -> list[str]:
    """The topics of global tables of which members report how far their copies are."""
    with open_control(app.name, app.settings) as control:
        members = control.read().progress.values()
        return [topic for member in members for topic, _ in member.global_tables or ()]


def test_a_global_table_is_whole_at_the_start_kept_and_followed(
    bootstrap_servers: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mark = uuid4().hex[:8]
    prices, orders, out = (f"{name}-{mark}" for name in ("prices", "orders", "out"))
    admin = KafkaAdmin(bootstrap_servers)
    admin.create_topics([NewTopic(prices, 3, 1), NewTopic(orders, 2, 1), NewTopic(out, 1, 1)])
    admin.close()
    producer = Producer({"bootstrap.servers": bootstrap_servers})

    def put(topic: str, *records: tuple[str, str]) -> None:
        for key, value in records:
            producer.produce(topic, value.encode(), key.encode())
        assert producer.flush(300) == 0

    seen: list[str | None] = []
    reported: list[str] = []
    followed = threading.Event()

    def priced(product: str, price: str | None) -> str:
        seen.append(price)
        if price == "3":
            followed.set()
        return f"{product}: {price}"

    app = sl.App(f"shop-{mark}", bootstrap_servers=bootstrap_servers,
                 config={"state.dir": str(tmp_path)})  # fmt: skip
    table = app.global_table(prices, key=str, value=str, store="prices")
    stream = app.stream(orders, key=str, value=str)
    stream.left_join(table, priced, on=lambda key, product: product, value=str).to(out)

    caplog.set_level(logging.INFO, "streamlet.processing.global_tables")
    put(prices, *((f"p{number}", "1") for number in range(50)))
    put(orders, *((f"k{number}", f"p{number}") for number in range(20)))
    first = app.run(count=20, timeout=300)
    assert {result.value for result in first} == {f"p{number}: 1" for number in range(20)}
    assert "read 50 records of global tables" in caplog.text

    put(prices, ("p1", "2"))
    put(orders, ("k", "p1"))
    assert [result.value for result in app.run(count=1, timeout=300)] == ["p1: 2"]
    assert "read 1 record of global tables" in caplog.text

    def order_until_followed() -> None:
        put(prices, ("p1", "3"))
        while not followed.wait(0.05):
            put(orders, ("k", "p1"))
        with closing(app):
            reported.extend(wait_for(lambda: copies(app), "its member reports"))

    def running(new: str, old: str) -> None:
        if new == "RUNNING" and not ordering.is_alive() and not followed.is_set():
            ordering.start()

    ordering = threading.Thread(target=order_until_followed)
    app.set_state_listener(running)
    app.run(timeout=400)
    ordering.join()
    assert followed.is_set(), seen
    assert reported == [prices]
