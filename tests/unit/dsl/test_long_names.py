"""Names, keys and texts that are far too long: a message shows where they begin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import streamlet as sl
from streamlet.app import load_app
from streamlet.bounded import whole
from streamlet.coordinator.commit_metadata import CommitMetadata
from streamlet.errors import ProcessingError, StreamletError
from streamlet.records.types import DataType
from streamlet.testing import TopologyTestDriver
from streamlet.tools.settings import check_servers, key_values
from streamlet.types import TaskId
from streamlet.user_code import listed

LONG = "x" * 5_000
#: More characters than a message about one of them may have.
MOST = 500


def app(source: str = "in", store: str = "counts") -> sl.App:
    shop = sl.App("shop")
    counts = shop.stream(source, key=str, value=str).group_by_key().count(store=store)
    counts.to_stream().to("out")
    return shop


def through(function: Callable[[str], str]) -> sl.App:
    shop = sl.App("shop")
    shop.stream("in", key=str, value=str).map_values(function, value=str).to("out")
    return shop


def stream() -> sl.KStream[str, str]:
    return sl.App("shop").stream("in", key=str, value=str)


def driven(use: Callable[[TopologyTestDriver], object]) -> Callable[[], object]:
    def used() -> object:
        with TopologyTestDriver(app()) as driver:
            return use(driver)

    return used


def of_store(call: Callable[..., Any], **options: Any) -> Callable[[], object]:
    return lambda: call(LONG, **{"key": str, "value": str, **options})


CASES: dict[str, Callable[[], object]] = {
    "application": lambda: sl.App(LONG),
    "source": lambda: app(LONG),
    "sources twice": lambda: sl.App("shop").stream([LONG, LONG], key=str, value=str),
    "table": lambda: sl.App("shop").table(LONG),
    "global table": lambda: sl.App("shop").global_table(LONG),
    "sink": lambda: stream().to(LONG),
    "sink of no type": lambda: stream().map_values(lambda _: 1).to(LONG),
    "store": lambda: app(store=LONG),
    "repartition": lambda: stream().repartition(name=LONG),
    "node": lambda: stream().filter(lambda key, value: True, name="KSTREAM-" + LONG),
    "child": lambda: stream().child(LONG),
    "key-value store": of_store(sl.key_value_store, ttl=-1),
    "window store": of_store(sl.window_store, size="1h", retention="1m"),
    "session store": of_store(sl.session_store, retention=-1),
    "versioned store": of_store(sl.versioned_store, history=-1),
    "lru store": of_store(sl.lru_store, max_entries=0),
    "custom store": of_store(sl.custom_store, make=lambda: None),
    "zone": lambda: sl.calendar("1d", tz=LONG),
    "setting": lambda: sl.App("shop", config={"acks": LONG}),
    "property": lambda: sl.App("shop", config={"consumer.isolation.level": LONG}),
    "driver's store": driven(lambda driver: driver.store(LONG)),
    "driver's input": driven(lambda driver: driver.pipe_input(LONG, "k", "v")),
    "driver's output": driven(lambda driver: driver.read_output(LONG)),
    "driver's partitions": lambda: TopologyTestDriver(app(), partitions={LONG: 1}),
    "reference": lambda: load_app(LONG),
    "module": lambda: load_app(f"{LONG}:app"),
    "address": lambda: check_servers(f"{LONG}:x", "--bootstrap-servers"),
    "option": lambda: key_values([LONG], "--set"),
    "number": lambda: DataType.of("int", "--value").encode_text(LONG),
    "float": lambda: DataType.of("float", "--value").encode_text(LONG),
    "task": lambda: TaskId.parse(LONG),
    "no number": lambda: whole(LONG),
    "commit": lambda: CommitMetadata.from_text('{"v":1,"by":[' + LONG),
}


@pytest.mark.parametrize("case", CASES)
def test_a_message_shows_where_a_long_name_begins(case: str) -> None:
    with pytest.raises((StreamletError, ValueError)) as caught:
        CASES[case]()
    assert len(str(caught.value)) < MOST, str(caught.value)


def test_an_error_is_told_of_as_far_as_its_message_can_be_read() -> None:
    def fails(value: str) -> str:
        raise ValueError(value * 1_000)

    with pytest.raises(ProcessingError) as caught, TopologyTestDriver(through(fails)) as driver:
        driver.pipe_input("in", "k", LONG)
    assert 4_000 < len(str(caught.value)) < 4_500


def test_a_message_lists_the_first_of_many_names() -> None:
    assert listed(["a", "b", "c"], 2) == "a, b and 1 more"
    assert listed(map(str, range(3)), 3) == "0, 1, 2"
    assert listed([]) == ""
