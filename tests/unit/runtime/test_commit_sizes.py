"""A topology whose commits may get longer than the broker takes is refused at its start."""

from __future__ import annotations

import pytest

from streamlet import App
from streamlet.config import Settings
from streamlet.errors import TopologyError
from streamlet.runtime.catalog import Catalog
from streamlet.runtime.commit_sizes import check_commits
from streamlet.testing.memory_ports import MemoryAdmin, MemoryLog
from streamlet.topology.graph import Topology

SETTINGS = Settings.load()
COUNTS = {"in": 128}


def counting(stores: int, *, behind: bool = False) -> Topology:
    """An application with so many stores in one subtopology, perhaps behind a repartition topic."""
    app = App("app")
    stream = app.stream("in", key=str, value=str)
    groups = (stream.repartition(name="between") if behind else stream).group_by_key()
    for number in range(stores):
        groups.count(store=f"a-store-with-quite-a-long-name-for-a-store-of-counts-{number:05d}")
    return app.topology()


def counts(topology: Topology) -> dict[str, int]:
    return COUNTS | dict.fromkeys(topology.repartition_topics, 128)


def test_two_hundred_stores_fit_into_what_brokers_take_by_default() -> None:
    topology = counting(200)
    check_commits(topology, counts(topology), 4_096, SETTINGS)


@pytest.mark.parametrize(("stores", "behind"), [(230, False), (80, True)])
def test_more_than_can_ever_fit_is_refused_unless_the_brokers_take_more(
    stores: int, behind: bool, caplog: pytest.LogCaptureFixture
) -> None:
    topology = counting(stores, behind=behind)
    with pytest.raises(TopologyError, match=rf"{stores} changelogs.*raise their offset.metadata"):
        check_commits(topology, counts(topology), 4_096, SETTINGS)
    check_commits(topology, counts(topology), 16_384, SETTINGS)
    assert not caplog.text
    check_commits(topology, counts(topology), None, SETTINGS)
    assert "do not say whether their" in caplog.text, "the broker may take it all the same"


def test_without_prefixes_no_origins_take_room() -> None:
    topology = counting(80, behind=True)
    plain = Settings.load(overrides=["repartition.exact=false"])
    check_commits(topology, counts(topology), 4_096, plain)


@pytest.mark.parametrize(("said", "limit"), [("65536", 65_536), (None, None), ("much", None)])
def test_an_application_learns_at_its_start_what_the_brokers_take(
    said: str | None, limit: int | None
) -> None:
    class Admin(MemoryAdmin):
        def broker_setting(self, name: str) -> str | None:
            assert name == "offset.metadata.max.bytes"
            return said

    log = MemoryLog()
    log.create("in", 1)
    catalog = Catalog(counting(1), Admin(log), SETTINGS)
    catalog.prepare()
    assert catalog.texts.max_bytes == limit


def test_a_start_is_refused_where_the_brokers_take_too_little() -> None:
    class Admin(MemoryAdmin):
        def broker_setting(self, name: str) -> str | None:
            return "200"

    log = MemoryLog()
    log.create("in", 1)
    with pytest.raises(TopologyError, match="the brokers take 200"):
        Catalog(counting(1), Admin(log), SETTINGS).prepare()
    worker = Catalog(counting(1), Admin(log), SETTINGS, {"in": 1})
    worker.prepare()
    assert worker.tasks(), "its instance runs already"
