"""Half of the data by a backfill and the rest live, against all of it live, per key."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from typer.testing import CliRunner

import streamlet as sl
from streamlet.config import Settings
from streamlet.control.topic import control_topic_name
from streamlet.errors import RefusedError, StreamletError
from streamlet.hosting.clients import open_control
from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.ports import NewTopic
from streamlet.spark import query_settings
from streamlet.testing import TopologyTestDriver
from streamlet.tools.main import build
from tests.integration.spark import backfills

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.integration]

BEGIN = 1_700_000_000_000 // backfills.MINUTE * backfills.MINUTE
#: Page, seconds and time; pages of the second half are partly those of the first.
VISITS = [(f"{'ab'[n % 2]}{n % 7}", n, BEGIN + n * 7_000) for n in range(60)]
HALF = 30
OUTPUTS = {topic: count for topic, count in backfills.TOPICS.items() if topic != "visits"}
Final = dict[tuple[str, bytes], bytes | None]


@pytest.fixture
def topics(
    bootstrap_servers: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The address of a broker with the topics, empty; commands use the session there is."""
    monkeypatch.setattr(sl.spark, "session", lambda *_, **__: spark)
    monkeypatch.setattr(sl.spark, "stop", lambda _: None)
    admin = KafkaAdmin(bootstrap_servers)
    admin.create_topics([NewTopic(name, count) for name, count in backfills.TOPICS.items()])
    yield bootstrap_servers
    internal = [name for name in admin.topics() if name.startswith(f"{backfills.APP.name}-")]
    admin.delete_topics([*backfills.TOPICS, *internal])
    admin.close()


def send(bootstrap: str, visits: list[tuple[str, int, int]]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2"})
    for page, seconds, time in visits:
        producer.produce("visits", seconds.to_bytes(8, "big"), page, timestamp=time)
    assert producer.flush(300) == 0


def backfill(
    bootstrap: str, tmp_path: Path, *words: str, name: str = "APP"
) -> tuple[int, dict[str, Any]]:
    """Exit code and document of ``streamlet backfill``."""
    app = f"tests.integration.spark.backfills:{name}"
    line = ["backfill", app, *words, "--json", "--bootstrap-servers", bootstrap]
    line += ["--set", f"state.dir={tmp_path / 'state'}", "--max-records-per-batch", "20"]
    found = CliRunner().invoke(build(), line)
    return found.exit_code, json.loads(found.stdout)


def settings_of(bootstrap: str, tmp_path: Path) -> Settings:
    """Those of its instances."""
    return backfills.APP.load_settings(
        environ={},
        overrides=[f"bootstrap.servers={bootstrap}", f"state.dir={tmp_path / 'state'}"],
    )


def noted_types(bootstrap: str, tmp_path: Path) -> dict[str, tuple[str, str]]:
    """The types of its changelogs, as the control topic has them."""
    with open_control(backfills.APP.name, settings_of(bootstrap, tmp_path)) as control:
        return {name: one.types for name, one in control.read().types.items()}


def live(bootstrap: str, tmp_path: Path, records: int) -> None:
    """Run an instance until it has written so many records."""
    settings = settings_of(bootstrap, tmp_path)
    backfills.APP.run(count=records, timeout=300, settings=settings)


def written(bootstrap: str, topics: Mapping[str, int] = OUTPUTS) -> Final:
    """The last value of each key of each topic."""
    found: Final = {}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader"})
    try:
        places = [TopicPartition(t, p, 0) for t, count in topics.items() for p in range(count)]
        count = sum(consumer.get_watermark_offsets(place, timeout=60)[1] for place in places)
        consumer.assign(places)
        while count:
            for message in consumer.consume(count, 1):
                assert message.error() is None
                found[message.topic(), message.key()] = message.value()
                count -= 1
    finally:
        consumer.close()
    return found


def all_live(visits: list[tuple[str, int, int]] = VISITS) -> Final:
    """The same of all visits in the test driver."""
    with TopologyTestDriver(backfills.APP) as driver:
        for page, seconds, time in visits:
            driver.pipe_input("visits", page, seconds, time)
        return {
            (topic, record.key): record.value
            for topic in OUTPUTS
            for record in driver.read_output(topic, key=bytes, value=bytes)
        }


def test_live_after_a_backfill_of_the_topic_equals_all_live(topics: str, tmp_path: Path) -> None:
    send(topics, VISITS[:HALF])
    code, document = backfill(topics, tmp_path, "--from", "topic")
    assert code == 0, document
    assert document["records"] == HALF
    types = {one.changelog: one.types for one in backfills.APP.topology().changelog_types}
    assert noted_types(topics, tmp_path) == types != {}
    assert sum(one["offset"] for one in document["positions"]) == HALF
    assert written(topics) == all_live(VISITS[:HALF])
    send(topics, VISITS[HALF:])
    live(topics, tmp_path, 3 * (len(VISITS) - HALF))
    assert written(topics) == all_live()
    code, document = backfill(topics, tmp_path, "--from", "topic")
    assert code == 5
    assert "has run before" in document["error"]["message"]


def test_the_query_has_settings_of_its_own_as_a_stream_has(
    spark: SparkSession, topics: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files without Spark's ten processes each, and no more shuffle partitions than tasks need."""
    from pyspark.sql.streaming import DataStreamWriter

    manager, shuffle = query_settings.MANAGER, query_settings.SHUFFLE
    found, start = [], DataStreamWriter.start

    def started(writer: DataStreamWriter, *given: Any, **more: Any) -> Any:
        found.append((spark.conf.get(manager), spark.conf.get(shuffle)))
        return start(writer, *given, **more)

    monkeypatch.setattr(DataStreamWriter, "start", started)
    send(topics, VISITS[:HALF])
    before = spark.conf.get(shuffle)
    spark.conf.set(shuffle, "7")
    try:
        code, document = backfill(topics, tmp_path, "--from", "topic")
    finally:
        spark.conf.set(shuffle, before)
    assert code == 0, document
    (name, number) = found[0]
    assert (name.rpartition(".")[2], number) == ("FileSystemBasedCheckpointFileManager", "2")
    assert not spark.conf.get(manager, ""), "the session has its own settings again"


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_live_behind_files_begins_after_their_last_record(
    spark: SparkSession, topics: str, tmp_path: Path, form: str
) -> None:
    """The topic has all records; those that are in the files are not read again."""
    rows = [
        (page, seconds, datetime.datetime.fromtimestamp(time / 1000, datetime.UTC))
        for page, seconds, time in VISITS[:HALF]
    ]
    frame = spark.createDataFrame(rows, "page string, seconds bigint, at timestamp").coalesce(1)
    frame.write.format(form).option("header", "true").save(str(tmp_path / "visits"))
    send(topics, VISITS)
    given = ["--path", f"visits={tmp_path / 'visits'}", "--key", "page", "--value", "seconds"]
    code, document = backfill(
        topics, tmp_path, "--from", form, *given, "--time", "at", "--output", "none"
    )
    assert code == 0, document
    assert written(topics) == {}
    live(topics, tmp_path, 3 * (len(VISITS) - HALF))
    wanted, before = all_live(), all_live(VISITS[:HALF])
    changed = {place: value for place, value in wanted.items() if before.get(place) != value}
    assert written(topics) == changed


def test_a_backfill_that_fails_commits_nothing_and_begins_again(
    topics: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from streamlet.spark.backfill import PreparedBackfill

    send(topics, VISITS[:HALF])
    run = PreparedBackfill.run

    def failing(*given: Any) -> None:
        run(*given)
        raise StreamletError("the driver is gone")

    with monkeypatch.context() as patched:
        patched.setattr(PreparedBackfill, "run", failing)
        code, document = backfill(topics, tmp_path, "--from", "topic")
        assert (code, document["error"]["message"]) == (1, "the driver is gone")
    admin = KafkaAdmin(topics)
    assert control_topic_name(backfills.APP.name) in admin.topics()
    admin.close()
    with pytest.raises(RefusedError, match="broken off"):
        live(topics, tmp_path, 1)
    code, document = backfill(topics, tmp_path, "--from", "topic")
    assert code == 0, document
    send(topics, VISITS[HALF:])
    live(topics, tmp_path, 3 * (len(VISITS) - HALF))
    assert written(topics) == all_live()


#: Key, value and time of records that go on for an hour, three at once, which the files part; each
#: minute has some of each key.
CLICKS = [("abc"[n % 3], n, BEGIN + n // 3 * 12_000) for n in range(900)]


def click_files(spark: SparkSession, folder: Path) -> None:
    """Five files, one of them empty, the newest records of each first.

    Spark takes the largest file first, which has the newest records of all.
    """
    ends = [0, 100, 250, 250, 500, 900]
    for number, (begin, end) in enumerate(pairwise(ends)):
        rows = [(key, value, time) for key, value, time in reversed(CLICKS[begin:end])]
        frame = spark.createDataFrame(rows, "key string, value bigint, timestamp bigint")
        frame.coalesce(1).write.mode("append").parquet(str(folder))
        assert len(list(folder.glob("*.parquet"))) == number + 1


def test_files_go_through_in_the_order_of_their_times(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows and final results of four files are those of records in order; all are counted."""
    monkeypatch.setattr(sl.spark, "session", lambda *_, **__: spark)
    monkeypatch.setattr(sl.spark, "stop", lambda _: None)
    click_files(spark, tmp_path / "clicks")
    outputs = {topic: count for topic, count in backfills.CLICKS.items() if topic != "clicks"}
    admin = KafkaAdmin(bootstrap_servers)
    admin.create_topics([NewTopic(name, count) for name, count in backfills.CLICKS.items()])
    try:
        given = ["--from", "parquet", "--path", f"clicks={tmp_path / 'clicks'}"]
        code, document = backfill(bootstrap_servers, tmp_path, *given, name="IN_ORDER")
        assert code == 0, document
        assert (document["records"], document["late"]) == (len(CLICKS), 0)
        found = written(bootstrap_servers, outputs)
    finally:
        internal = [name for name in admin.topics() if name.startswith(backfills.IN_ORDER.name)]
        admin.delete_topics([*backfills.CLICKS, *internal])
        admin.close()
    with TopologyTestDriver(backfills.IN_ORDER) as driver:
        for click in CLICKS:
            driver.pipe_input("clicks", *click)
        wanted = {
            (topic, record.key): record.value
            for topic in outputs
            for record in driver.read_output(topic, key=bytes, value=bytes)
        }
    assert len(wanted) > 300
    assert found == wanted
