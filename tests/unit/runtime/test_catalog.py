"""Partition counts that change while an application runs: taken where the state allows it."""

from __future__ import annotations

import re
from typing import NoReturn

import pytest

from streamlet import App, Materialized
from streamlet.config import Settings
from streamlet.dsl.windowing.definitions import tumbling
from streamlet.errors import BrokerError, StateMismatchError, TopologyError, UnreachableError
from streamlet.runtime.catalog import MOST_REPORTED, Catalog
from streamlet.testing.memory_ports import MemoryAdmin, MemoryLog
from streamlet.topology.graph import Topology
from streamlet.types import TaskId, TopicPartition

SETTINGS = Settings.load(overrides=["metadata.max.age.ms=10"])


@pytest.fixture
def log() -> MemoryLog:
    log = MemoryLog()
    log.create("in", 2)
    return log


def grow(log: MemoryLog, partitions: int) -> None:
    """Add partitions."""
    MemoryAdmin(log).grow_topics({"in": partitions})


def stateful() -> Topology:
    app = App("app")
    app.stream("in", key=str, value=int).group_by_key().count(store="counts")
    return app.topology()


def regrouped() -> Topology:
    app = App("app")
    words = app.stream("in", key=str, value=int).group_by(lambda k, v: k, key=str)
    words.count(store="counts")
    return app.topology()


def stateless() -> Topology:
    app = App("app")
    app.stream("in", key=str, value=int).to("out")
    return app.topology()


def prepared(
    log: MemoryLog,
    topology: Topology,
    known: dict[str, int] | None = None,
    admin: MemoryAdmin | None = None,
) -> Catalog:
    catalog = Catalog(topology, admin or MemoryAdmin(log), SETTINGS, known)
    catalog.prepare()
    return catalog


def looked(catalog: Catalog) -> bool:
    """Whether there are other tasks when the time has come to look again."""
    assert not catalog.look(0)
    return catalog.look(1_000_000)


def test_a_start_names_a_repartition_topic_that_has_the_brokers_times(
    log: MemoryLog, caplog: pytest.LogCaptureFixture
) -> None:
    (between,) = regrouped().repartition_topics
    prepared(log, regrouped())
    assert log.config(between)["message.timestamp.type"] == "CreateTime"
    assert "LogAppendTime" not in caplog.text
    log.alter({between: {"message.timestamp.type": "LogAppendTime"}})
    prepared(log, regrouped())
    assert f"{between} has message.timestamp.type=LogAppendTime: windows" in caplog.text
    prepared(log, regrouped(), {"in": 2})
    assert caplog.text.count("LogAppendTime") == 1, "the instance has said so"


def test_a_start_names_the_topics_that_were_created_with_other_settings(
    log: MemoryLog, caplog: pytest.LogCaptureFixture
) -> None:
    prepared(log, regrouped())
    settings = Settings.load({"topic.segment.bytes": "52428800", "topic.flush.ms": 9})
    Catalog(regrouped(), MemoryAdmin(log), settings).prepare()
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "app-counts-repartition has flush.ms = None, and the settings say 9",
        "app-counts-changelog has segment.bytes = None, and the settings say 52428800",
        "app-counts-changelog has flush.ms = None, and the settings say 9",
    ]


def test_a_start_names_topics_that_an_earlier_version_may_have_made(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A pattern matches them: that nothing but their names tells whose they are."""
    log = MemoryLog()
    for topic in ("app-old-changelog", "app-x-topic", "app-counts-changelog"):
        log.create(topic, 1)
    app = App("app")
    app.stream(re.compile("app-.*"), key=str, value=int).group_by_key().count(store="counts")
    catalog = prepared(log, app.topology())
    assert catalog.inputs == ("app-old-changelog", "app-x-topic")
    (line,) = caplog.messages
    assert line.startswith("app-old-changelog is read, since a pattern matches it; if an earlier")
    caplog.clear()
    prepared(log, app.topology(), {"app-old-changelog": 1, "app-x-topic": 1})
    assert caplog.messages == [], "the instance has said so"


@pytest.mark.parametrize("known", [None, {"in": 2, "in.eu": 1}])
def test_inputs_that_came_while_the_instance_ran_are_told_apart(
    log: MemoryLog, known: dict[str, int] | None
) -> None:
    """A worker that is started again goes by what its instance began with."""
    app = App("app")
    app.stream(re.compile(r"in.*"), key=str, value=int).to("out")
    log.create("in.eu", 1)
    if known is not None:
        log.create("in.us", 1)
    catalog = prepared(log, app.topology(), known)
    log.create("in.us", 1)
    grow(log, 3)
    looked(catalog)
    places = [("in", 0), ("in", 1), ("in", 2), ("in.eu", 0), ("in.us", 0)]
    later = [place for place in places if catalog.came_later(TopicPartition(*place))]
    assert later == [("in", 2), ("in.us", 0)]


def test_a_stateless_application_takes_new_partitions(log: MemoryLog) -> None:
    catalog = prepared(log, stateless())
    grow(log, 3)
    assert looked(catalog)
    assert [info.task for info in catalog.tasks()] == [TaskId(0, n) for n in range(3)]


@pytest.mark.parametrize("topology", [stateful, regrouped])
def test_tasks_with_state_go_on_without_new_partitions(
    log: MemoryLog, topology: object, caplog: pytest.LogCaptureFixture
) -> None:
    assert callable(topology)
    catalog = prepared(log, topology())
    tasks = catalog.tasks()
    grow(log, 4)
    assert not looked(catalog)
    assert catalog.tasks() == tasks
    assert catalog.counts["in"] == 2
    assert f"the {len(tasks)} tasks there are go on" in caplog.text
    assert "in has 4 partitions, but app-" in caplog.text
    assert not catalog.look(2_000_000)
    assert caplog.text.count("in has 4 partitions") == 2, "said again as long as it is so"


def test_a_leader_reports_the_partitions_that_are_read(log: MemoryLog) -> None:
    """Those the tasks read, whatever the topic has by now; nothing where they are too many."""
    kept, taken = prepared(log, stateful()), prepared(log, stateless())
    grow(log, 4)
    looked(kept)
    looked(taken)
    assert kept.reported_inputs == (("in", 2),)
    assert taken.reported_inputs == (("in", 4),)
    for number in range(MOST_REPORTED):
        log.create(f"in-{number}", 1)
    app = App("app")
    app.stream(re.compile("in.*"), key=str, value=int).to("out")
    assert prepared(log, app.topology()).reported_inputs is None


def test_behind_a_repartition_of_its_own_size_state_takes_any_growth(log: MemoryLog) -> None:
    app = App("app")
    words = app.stream("in", key=str, value=int).repartition(partitions=2, name="words")
    words.group_by_key().count(store="counts")
    catalog = prepared(log, app.topology())
    grow(log, 4)
    assert looked(catalog)
    tasks = [info.task for info in catalog.tasks()]
    assert tasks == [TaskId(0, n) for n in range(4)] + [TaskId(1, 0), TaskId(1, 1)]


def test_a_start_is_refused_and_says_what_can_be_done(log: MemoryLog) -> None:
    prepared(log, stateful())
    grow(log, 4)
    with pytest.raises(TopologyError, match="in has 4 partitions, but app-counts-changelog") as no:
        prepared(log, stateful())
    for way in ("under another id", "streamlet reset", "repartition("):
        assert way in str(no.value)


def test_a_start_that_is_refused_for_its_state_makes_no_topic(log: MemoryLog) -> None:
    log.create("out", 2)
    before = set(MemoryAdmin(log).topics())

    def refuse() -> None:
        raise StateMismatchError("the topology changed under its state")

    with pytest.raises(StateMismatchError):
        Catalog(stateful(), MemoryAdmin(log), SETTINGS).prepare(refuse)
    assert set(MemoryAdmin(log).topics()) == before


def test_a_worker_of_an_instance_that_runs_goes_on_with_the_counts_of_its_instance(
    log: MemoryLog, caplog: pytest.LogCaptureFixture
) -> None:
    tasks = prepared(log, stateful()).tasks()
    grow(log, 4)
    catalog = prepared(log, stateful(), {"in": 2})
    assert catalog.tasks() == tasks
    assert "in has 4 partitions" in caplog.text
    grow(log, 2)
    assert not looked(catalog), "there are the partitions again that it knows"


def windowed() -> Topology:
    app = App("app")
    stream = app.stream("in", key=str, value=int).group_by_key()
    stream.windowed_by(tumbling("1m")).count(store="minutes")
    stream.count(store="counts")
    return app.topology()


MINUTES = "app-minutes-changelog"


def test_a_start_lets_old_changelogs_of_windows_be_cut_off(
    log: MemoryLog, caplog: pytest.LogCaptureFixture
) -> None:
    """Never with a time or a size at which the broker would delete by itself; other topics stay."""
    caplog.set_level("INFO", "streamlet.runtime.catalog")
    for name in (MINUTES, "app-counts-changelog"):
        log.create(name, 2, {"cleanup.policy": "compact", "flush.ms": "9"})
    prepared(log, windowed())
    assert log.config(MINUTES) == {
        "cleanup.policy": "compact,delete",
        "flush.ms": "9",
        "retention.bytes": "-1",
        "retention.ms": "-1",
    }
    assert log.config("app-counts-changelog")["cleanup.policy"] == "compact"
    assert [record.levelname for record in caplog.records] == ["INFO"]
    prepared(log, windowed())
    assert len(caplog.records) == 1


def test_one_that_may_not_be_changed_is_named_with_what_to_do(
    log: MemoryLog, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.create(MINUTES, 2, {"cleanup.policy": "compact"})
    monkeypatch.setattr(MemoryAdmin, "alter_topics", lambda self, asked: dict.fromkeys(asked, "no"))
    prepared(log, windowed())
    (warning,) = caplog.messages
    assert warning == (
        f"{MINUTES} was made with cleanup.policy=compact, which keeps expired windows for ever; "
        "change it, with cleanup.policy=compact,delete, retention.bytes=-1, retention.ms=-1: no"
    )


AGE, SIZE = {"retention.ms": "604800000"}, {"retention.bytes": "1000"}


@pytest.mark.parametrize(
    ("settings", "lost"),
    [
        (
            {"cleanup.policy": "delete", **AGE},
            "cleanup.policy=delete with retention.ms=604800000, which deletes rows that were not "
            "written for 604800000 ms",
        ),
        (
            {"cleanup.policy": "compact,delete", **AGE, **SIZE},
            "cleanup.policy=compact,delete with retention.ms=604800000 and retention.bytes=1000, "
            "which deletes rows that were not written for 604800000 ms or lie before the last 1000 "
            "bytes",
        ),
        ({"cleanup.policy": "compact", **AGE, **SIZE}, ""),
        ({"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}, ""),
        ({}, ""),  # settings that we may not see
    ],
)
def test_a_start_says_which_rows_of_a_table_its_topic_deletes(
    log: MemoryLog, caplog: pytest.LogCaptureFixture, settings: dict[str, str], lost: str
) -> None:
    log.create("rows", 2, settings)
    log.create("out", 1)
    app = App("app")
    rows = app.table("rows", key=str, value=int)
    app.stream("in", key=str, value=int).join(rows, lambda one, two: one, value=int).to("out")
    prepared(log, app.topology())
    assert [message.partition(": a host")[0] for message in caplog.messages] == (
        [f"rows is read as a table and has {lost}"] if lost else []
    )
    prepared(log, app.topology(), {"in": 2, "rows": 2})
    assert len(caplog.messages) == bool(lost), "its workers need not say it again"


def test_a_table_with_a_history_has_a_changelog_of_its_own_and_may_lie_on_any_topic(
    log: MemoryLog, caplog: pytest.LogCaptureFixture
) -> None:
    log.create("rows", 2, {"cleanup.policy": "delete", **AGE})
    app = App("app")
    app.table("rows", key=str, value=int, store=Materialized("rows", history="1h"))
    prepared(log, app.topology())
    assert caplog.messages == []


def by_pattern(regroup: bool) -> Topology:
    app = App("app")
    words = app.stream(re.compile("in|more"), key=str, value=int)
    groups = words.group_by(lambda k, v: k, key=str) if regroup else words.group_by_key()
    groups.count(store="counts")
    return app.topology()


@pytest.mark.parametrize("regroup", [False, True])
def test_a_start_goes_on_with_fewer_partitions_of_a_pattern(log: MemoryLog, regroup: bool) -> None:
    """The topic with the most partitions was deleted; keys of the others lie where they did."""
    log.create("more", 4)
    running = prepared(log, by_pattern(regroup))
    count, behind = len(running.tasks()), 4 if regroup else 0
    assert count == 4 + behind
    log.delete("more")
    assert running.look(0, at_once=True)
    started = prepared(log, by_pattern(regroup), running.counts)
    for catalog in (running, started, prepared(log, by_pattern(regroup))):
        assert len(catalog.tasks()) == 2 + behind
        assert catalog.inputs_of(TaskId(0, 1)) == (TopicPartition("in", 1),)
        assert catalog.inputs_of(TaskId(0, 3)) == ()


def test_the_last_topic_of_a_pattern_may_go(
    log: MemoryLog, caplog: pytest.LogCaptureFixture
) -> None:
    catalog = prepared(log, by_pattern(regroup=False))
    log.delete("in")
    assert catalog.look(0, at_once=True)
    assert catalog.tasks() == ()
    assert "without another input end, and keep their changelogs: 0_0, 0_1" in caplog.text


@pytest.mark.parametrize("request_", ["topic_ids", "topic_settings"])
def test_other_tasks_are_told_though_a_broker_ended_the_look_that_found_them(
    log: MemoryLog, monkeypatch: pytest.MonkeyPatch, request_: str
) -> None:
    def unanswered(*_: object) -> NoReturn:
        raise UnreachableError("no answer")

    log.create("more", 4)
    catalog = prepared(log, by_pattern(regroup=False))
    log.delete("more")
    catalog.doubted = True
    with monkeypatch.context() as patch:
        patch.setattr(MemoryAdmin, request_, unanswered)
        with pytest.raises(UnreachableError):
            catalog.look(0, at_once=True)
    assert [catalog.look(0, at_once=True) for _ in range(2)] == [True, False]


def test_a_topic_that_is_read_by_name_is_missed(log: MemoryLog) -> None:
    catalog = prepared(log, stateful())
    catalog.check_named(["other"])
    catalog.check_named(["in"])  # it was made again meanwhile
    log.delete("in")
    with pytest.raises(BrokerError, match="in does not exist any more, and the application reads"):
        catalog.check_named(["in"])


@pytest.mark.parametrize("at_once", [True, False], ids=["a task waits for it", "in time"])
def test_a_changelog_that_is_gone_is_made_again(log: MemoryLog, at_once: bool) -> None:
    """A task that begins asks where it ends, and only its owner's failing commit ended a worker."""
    catalog = prepared(log, stateful())
    log.delete("app-counts-changelog")
    assert not (catalog.look(0, at_once=True) if at_once else looked(catalog))
    assert log.infos()["app-counts-changelog"].partitions == 2


@pytest.mark.parametrize("by", ["pattern", "name"])
def test_a_topic_that_was_made_again_between_two_looks_is_named_once(
    log: MemoryLog, caplog: pytest.LogCaptureFixture, by: str
) -> None:
    topic = "more" if by == "pattern" else "in"
    catalog = prepared(log, by_pattern(regroup=False) if by == "pattern" else stateful())
    for _ in range(2):
        log.create(topic, 2)
        catalog.look(0, at_once=True)
    assert "made again" not in caplog.text
    for _ in range(2):
        log.delete(topic)
        log.create(topic, 2)
        for _ in range(2):
            assert not catalog.look(0, at_once=True)
        assert catalog.was_remade(TopicPartition(topic, 0))
    told = [line for line in caplog.messages if f"{topic} was deleted and made again" in line]
    assert len(told) == 2
