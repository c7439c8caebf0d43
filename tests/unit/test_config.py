"""Settings: every row reads its default, every source is heard, every problem is told at once."""

from __future__ import annotations

import pickle
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from streamlet.config import Settings
from streamlet.config.page import pages
from streamlet.config.sources import variable
from streamlet.config.table import rows
from streamlet.errors import ConfigError


def problems(*args: Any, **sources: Any) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        Settings.load(*args, **sources)
    return caught.value.problems


@pytest.mark.parametrize("key", rows())
def test_each_default_is_a_value_of_its_kind(key: str) -> None:
    default = Settings()[key]
    if default is not None:
        parsed = rows()[key].kind.parse(default)
        assert parsed == default
        assert type(parsed) is type(default)


def test_defaults_are_those_promised() -> None:
    settings = Settings.load()
    assert settings.num_standby_replicas == 0
    assert settings.session_timeout_ms == 10_000
    assert settings.commit_interval_ms == 1_000
    assert settings.scale_down_timeout_ms is None
    assert settings.cache_max_bytes == 67_108_864
    assert settings.state_dir.name == "streamlet"
    assert settings.given == frozenset()


def test_a_key_and_its_attribute_are_the_same() -> None:
    settings = Settings.load({"num.standby.replicas": 2})
    assert settings["num.standby.replicas"] == settings.num_standby_replicas == 2
    with pytest.raises(KeyError, match=r"did you mean num\.standby\.replicas"):
        settings["num.standby.replica"]


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("learner.partial.rebalance", "False", False),
        ("learner.partial.rebalance", True, True),
        ("commit.interval.ms", timedelta(seconds=2), 2_000),
        ("commit.interval.ms", "2s", 2_000),
        ("commit.interval.ms", "1.5 s", 1_500),
        ("commit.interval.ms", " 250 ", 250),
        ("commit.interval.ms", "250ms", 250),
        ("scale.down.timeout.ms", "10m", 600_000),
        ("scale.down.timeout.ms", "infinite", None),
        ("cache.max.bytes", "64 MiB", 67_108_864),
        ("cache.max.bytes", "1GB", 1_000_000_000),
        ("cache.max.bytes", "10", 10),
        ("cache.max.bytes", 0, 0),
        ("stream.imbalance.percentage", "0.5", 0.5),
        ("stream.imbalance.percentage", 1, 1.0),
        ("instance.capacity", "2", 2.0),
        ("instance.tags", "zone=a, rack=3", {"zone": "a", "rack": "3"}),
        ("instance.tags", {"zone": "a"}, {"zone": "a"}),
        ("instance.tags", "", {}),
        ("rack.aware.assignment.tags", "zone,rack", ("zone", "rack")),
        ("rack.aware.assignment.tags", ["zone"], ("zone",)),
        ("state.dir", "/data", Path("/data")),
        ("state.dir", "~/data", Path.home() / "data"),
        ("processing.guarantee", "exactly_once", "exactly_once"),
        ("processing.guarantee", "EXACTLY_ONCE_V2", "exactly_once"),
        ("replication.factor", "3", 3),
        ("group.instance.id", "host-1", "host-1"),
        ("bootstrap.servers", "kafka", "kafka"),
        ("bootstrap.servers", " a-1.b:9092 , [::1]:9 ", "a-1.b:9092,[::1]:9"),
        ("bootstrap.servers", "SASL_SSL://a:9092", "SASL_SSL://a:9092"),
        ("buffered.records.per.partition", "10_000", 10_000),
    ],
)
def test_values_are_read_from_python_and_from_text(key: str, value: Any, expected: object) -> None:
    got = Settings.load({key: value})[key]
    assert got == expected
    assert type(got) is type(expected)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("learner.partial.rebalance", 1, "expected true or false"),
        ("learner.partial.rebalance", "maybe", "expected true or false"),
        ("num.standby.replicas", -1, "expected a whole number, 0 or more"),
        ("num.standby.replicas", True, "expected a whole number"),
        ("num.standby.replicas", 1.0, "expected a whole number"),
        ("num.standby.replicas", "one", "expected a whole number"),
        ("commit.interval.ms", 1.5, "whole milliseconds"),
        ("commit.interval.ms", timedelta(microseconds=1), "whole milliseconds"),
        ("commit.interval.ms", "0.5ms", "whole milliseconds"),
        ("commit.interval.ms", "5 parsecs", "whole milliseconds"),
        ("commit.interval.ms", -1, "expected at least 0 ms"),
        ("session.timeout.ms", 0, "expected at least 1 ms"),
        ("cache.max.bytes", "64 XiB", "64 MiB"),
        ("cache.max.bytes", -1, "expected bytes, 0 or more"),
        ("stream.imbalance.percentage", 20, "0.2 means 20 %"),
        ("stream.imbalance.percentage", "1.5", "0.015 means 1.5 %"),
        ("stream.imbalance.percentage", -0.1, "expected a fraction"),
        ("stream.imbalance.percentage", "nan", "expected a fraction"),
        ("stream.imbalance.percentage", 200, "expected a fraction"),
        ("restore.max.share", 0, "expected a fraction above 0"),
        ("instance.capacity", 0, "expected a number above 0"),
        ("instance.capacity", "inf", "expected a number above 0"),
        ("instance.tags", "zone", "expected names with values"),
        ("instance.tags", {"zone": 3}, "expected names with values"),
        ("instance.tags", 3, "expected names with values"),
        ("rack.aware.assignment.tags", [3], "expected words"),
        ("rack.aware.assignment.tags", 3, "expected words"),
        ("state.dir", "", "expected a path"),
        ("bootstrap.servers", " ", "expected host:port"),
        ("bootstrap.servers", "a:1,", "expected host:port"),
        ("bootstrap.servers", "a:port", "expected host:port"),
        ("bootstrap.servers", "a:65536", "expected host:port"),
        ("bootstrap.servers", "a:0", "expected host:port"),
        ("bootstrap.servers", "a b:1", "expected host:port"),
        ("bootstrap.servers", "http://a:1", "expected host:port"),
        ("group.instance.id", 3, "expected 1 to 240 letters"),
        ("group.instance.id", "", "expected 1 to 240 letters"),
        ("group.instance.id", "a b", "expected 1 to 240 letters"),
        ("processing.guarantee", "at_most_once", "expected at_least_once or exactly_once"),
        ("replication.factor", 0, "expected 1 or more, up to 10000, or -1"),
        ("security.protocol", "TLS", "expected plaintext or ssl"),
    ],
)
def test_wrong_values_are_refused_with_what_was_expected(key: str, value: Any, reason: str) -> None:
    [problem] = problems({key: value})
    assert problem.startswith(key)
    assert reason in problem


def test_every_problem_of_every_source_is_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "app.properties"
    file.write_text("num.standby.replicas=one\nbroken\n")
    found = problems(
        {"commit.intervall.ms": 5, "stream.imbalance.percentage": 20},
        file=file,
        environ={"STREAMLET_CACHE_MAX_BYTES": "much", "STREAMLET_NUM_STANDBY_REPLICA": "1"},
        overrides=["session.timeout.ms=soon", "what"],
    )
    assert [problem.partition(":")[0] for problem in found] == [
        "commit.intervall.ms",
        "stream.imbalance.percentage = 20",
        str(file),
        str(file),
        "STREAMLET_CACHE_MAX_BYTES = 'much'",
        "STREAMLET_NUM_STANDBY_REPLICA",
        "--set session.timeout.ms = 'soon'",
        "--set what",
    ]
    assert found[0].endswith("did you mean commit.interval.ms?")
    assert found[2].startswith(f"{file}:1: num.standby.replicas = 'one': expected")
    assert found[3] == f"{file}:2: expected key=value"
    assert found[5].endswith("did you mean STREAMLET_NUM_STANDBY_REPLICAS?")


@pytest.mark.parametrize(
    ("key", "advice"),
    [
        ("num.standby.replica", "did you mean num.standby.replicas?"),
        ("num_standby_replicas", "did you mean num.standby.replicas?"),
        ("Commit.Interval.MS", "did you mean commit.interval.ms?"),
        ("linger.ms", "did you mean producer.linger.ms?"),
        ("prodcuer.linger.ms", "did you mean producer.linger.ms?"),
        ("num.stream.threads", "give --processes"),
        ("application.id", "first argument of App"),
        ("max.warmup.replicas", "max.learners.per.group"),
        ("max.learners", "max.learners.per.source or max.learners.per.group?"),
        *((key, "unknown setting") for key in ("consumer.", "zzz")),
    ],
)
def test_an_unknown_key_comes_with_advice(key: str, advice: str) -> None:
    assert problems({key: 1})[0].startswith(f"{key}: unknown setting")
    assert advice in problems({key: 1})[0]


def test_nearer_to_the_command_line_wins(tmp_path: Path) -> None:
    file = tmp_path / "app.properties"
    keys = [
        "max.moves.per.rebalance",
        "num.standby.replicas",
        "max.task.idle.ms",
        "commit.interval.ms",
    ]
    file.write_text("".join(f"{key}=2\n" for key in keys[1:]))
    settings = Settings.load(
        dict.fromkeys(keys, 1),
        file=file,
        environ={variable(key): "3" for key in keys[2:]},
        overrides=[f"{keys[3]}=4", f"{keys[3]}=5"],
    )
    assert [settings[key] for key in keys] == [1, 2, 3, 5]
    assert settings.given == set(keys)


def test_none_in_the_code_means_the_default() -> None:
    settings = Settings.load({"num.standby.replicas": None})
    assert settings == Settings.load()
    assert settings.given == frozenset()


def test_a_properties_file_is_read_as_java_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "app.properties"
    file.write_text(
        "\ufeff# comment\n! comment\n\n  num.standby.replicas : 1\nmax.task.idle.ms 7\n"
        "rack.aware.assignment.tags=zone,\\\n    rack\nstate.dir = /a=b\nsasl.password=x#y\n"
        "instance.tags=zone=a,\\"
    )
    settings = Settings.load(file=file)
    assert settings.num_standby_replicas == 1
    assert settings.max_task_idle_ms == 7
    assert settings.rack_aware_assignment_tags == ("zone", "rack")
    assert settings.state_dir == Path("/a=b")
    assert settings.security == {"sasl.password": "x#y"}
    assert settings.instance_tags == {"zone": "a"}


def test_a_properties_file_must_be_there_and_hold_each_key_once(tmp_path: Path) -> None:
    assert "cannot be read" in problems(file=tmp_path / "nowhere")[0]
    file = tmp_path / "app.properties"
    file.write_text("max.task.idle.ms=1\nmax.task.idle.ms=2\n")
    assert problems(file=file) == (f"{file}:2: max.task.idle.ms: given twice in this file",)
    file.write_bytes(b"\xff")
    assert "not UTF-8" in problems(file=file)[0]


def test_variables_of_others_and_of_commands_are_left_alone() -> None:
    environ = {
        "PATH": "/bin",
        "STREAMLET_TEST_BROKER": "embedded",
        "STREAMLET_LOG_LEVEL": "debug",
        "STREAMLET_NUM_STANDBY_REPLICAS": "",
    }
    assert Settings.load(environ=environ) == Settings.load()


def test_client_settings_pass_through_by_prefix() -> None:
    settings = Settings.load(
        {"consumer.fetch.min.bytes": 1, "producer.linger.ms": 5},
        environ={"STREAMLET_ADMIN_SOCKET_TIMEOUT_MS": "9"},
        overrides=["producer.linger.ms=7"],
    )
    assert settings.client_config("consumer") == {"fetch.min.bytes": 1}
    assert settings.client_config("producer") == {"linger.ms": "7"}
    assert settings.client_config("admin") == {"socket.timeout.ms": "9"}
    assert settings.client_config("group") == {}


@pytest.mark.parametrize(
    ("key", "advice"),
    [
        ("producer.lingre.ms", "(librdkafka), did you mean producer.linger.ms?"),
        ("producer.linger_ms", "(librdkafka), did you mean producer.linger.ms?"),
        ("consumer.fetch.max.byte", "(librdkafka), did you mean consumer.fetch.max.bytes?"),
        ("admin.zzz", "(librdkafka)"),
    ],
)
def test_an_unknown_property_of_a_client_comes_with_advice(key: str, advice: str) -> None:
    [problem] = problems({key: 1})
    assert problem.startswith(f"{key}: unknown setting of Kafka's client")
    assert problem.endswith(advice)


def test_settings_of_internal_topics_are_for_all_or_for_one(tmp_path: Path) -> None:
    file = tmp_path / "app.properties"
    file.write_text("topic.segment.bytes=1MiB\ntopic.a.b-changelog.segment.ms=2m\n")
    settings = Settings.load(
        {"topic.min.insync.replicas": 2, "topic.preallocate": True, "topic.flush.ms": 7},
        file=file,
        environ={"STREAMLET_TOPIC_MAX_MESSAGE_BYTES": "2000000"},
        overrides=["topic.a.b-changelog.max.message.bytes=3 MB", "topic.min.insync.replicas=1"],
    )
    assert settings.topics == {
        "": {
            "min.insync.replicas": "1",
            "preallocate": "true",
            "flush.ms": "7",
            "segment.bytes": "1048576",
            "max.message.bytes": "2000000",
        },
        "a.b-changelog": {"segment.ms": "120000", "max.message.bytes": "3000000"},
    }
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert Settings.load({"topic.flush.ms": None}).topics == {}


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("topic.max.mesage.bytes", 1, "Kafka's topics, did you mean topic.max.message.bytes?"),
        ("topic.max_message_bytes", 1, "did you mean topic.max.message.bytes?"),
        ("topic.a.b.segment.byte", 1, "did you mean topic.a.b.segment.bytes?"),
        ("topic.zzz", 1, "unknown setting of Kafka's topics"),
        ("topic.cleanup.policy", "delete", "streamlet sets cleanup.policy itself: changelogs"),
        ("topic.a-repartition.retention.ms", 1, "streamlet sets retention.ms itself: records"),
        ("topic.a.segment.bytes", "much", "= 'much': expected bytes"),
        ("topic.min.insync.replicas", 0, "= 0: expected a whole number, 1 or more"),
        ("topics.max.message.bytes", 1, "did you mean topic.max.message.bytes?"),
        ("max.message.bytes", 1, "did you mean topic.max.message.bytes?"),
        ("topic.", 1, "unknown setting"),
    ],
)
def test_wrong_settings_of_internal_topics_are_refused(key: str, value: Any, reason: str) -> None:
    other, problem = problems({"commit.interval": 1, key: value})
    assert other.startswith("commit.interval: ")
    assert problem.startswith(key)
    assert reason in problem


def test_unknown_properties_of_clients_are_reported_with_everything_else() -> None:
    found = problems({"producer.nonsense": 1, "commit.interval": 2, "consumer.nonsense": 3})
    assert [problem.partition(":")[0] for problem in found] == [
        "producer.nonsense",
        "commit.interval",
        "consumer.nonsense",
    ]


@pytest.mark.parametrize(
    ("key", "place"),
    [
        ("consumer.group.id", "the application's id"),
        ("producer.transactional.id", "processing.guarantee"),
        ("consumer.enable.auto.commit", "nothing else works"),
        ("producer.partitioner", "partitioner="),
    ],
)
def test_what_streamlet_decides_itself_cannot_be_passed_through(key: str, place: str) -> None:
    [problem] = problems({key: "x"})
    assert problem.startswith(f"{key}: streamlet sets {key.partition('.')[2]} itself, ")
    assert place in problem


def test_exactly_once_commits_ten_times_as_often_unless_told_otherwise() -> None:
    assert Settings.load({"processing.guarantee": "exactly_once"}).commit_interval_ms == 100
    given = {"processing.guarantee": "exactly_once", "commit.interval.ms": 700}
    assert Settings.load(given).commit_interval_ms == 700


def test_the_transaction_timeout_outlasts_a_rebalance_by_default() -> None:
    settings = Settings.load({"processing.guarantee": "exactly_once"})
    assert settings.transaction_timeout_ms == 75_000
    assert Settings.load().transaction_timeout_ms == 60_000


def test_a_transaction_timeout_within_a_rebalance_is_refused_under_exactly_once_only() -> None:
    given = {"transaction.timeout.ms": 70_000, "session.timeout.ms": 10_000}
    assert Settings.load(given).transaction_timeout_ms == 70_000
    [problem] = problems({**given, "processing.guarantee": "exactly_once"})
    assert problem.startswith("transaction.timeout.ms = 70000 must exceed 70000")
    enough = {**given, "processing.guarantee": "exactly_once", "transaction.timeout.ms": 70_001}
    assert Settings.load(enough).transaction_timeout_ms == 70_001


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ({"heartbeat.interval.ms": 4_000}, ["heartbeat.interval.ms = 4000", "at most 3333"]),
        ({"session.timeout.ms": 600}, ["session.timeout.ms = 600", "at most 200"]),
        ({"handover.timeout.ms": "2m"}, ["handover.timeout.ms = 120000", "rebalance.timeout.ms"]),
        ({"commit.interval.ms": "2m"}, ["commit.interval.ms = 120000", "rebalance.timeout.ms"]),
    ],
)
def test_settings_that_cannot_be_together_are_refused_naming_both(
    values: dict[str, object], names: list[str]
) -> None:
    [problem] = problems(values)
    for name in names:
        assert name in problem


def test_settings_travel_to_other_processes() -> None:
    settings = Settings.load({"instance.tags": {"zone": "a"}, "sasl.password": "x"})
    assert pickle.loads(pickle.dumps(settings)) == settings


def test_the_pages_are_up_to_date() -> None:
    """Else run `python -m streamlet.config.page`."""
    for file, text in pages().items():
        assert file.read_text("utf-8") == text


def test_no_key_has_an_underscore_so_that_variables_are_clear() -> None:
    names = [variable(key) for key in rows()]
    assert len(set(names)) == len(names)
    assert not any("_" in key for key in rows())
