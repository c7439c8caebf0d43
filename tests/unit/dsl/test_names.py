"""``name=`` of every operator: the names that Kafka Streams makes of it, and no others changed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import streamlet as sl
from streamlet.dsl.branched import BranchedKStream
from streamlet.dsl.cogrouped import CogroupedKStream, WindowedCogroupedKStream
from streamlet.dsl.grouped import KGroupedStream
from streamlet.dsl.grouped_table import KGroupedTable
from streamlet.dsl.stream import KStream
from streamlet.dsl.table import KTable
from streamlet.dsl.windowed import WindowedKStream
from streamlet.errors import TopologyError
from streamlet.testing import TopologyTestDriver

#: They make no node of their own, or are called by what they make.
UNNAMED = {"split", "child", "windowed_by", "cogroup", "no_default_branch"}
Build = Callable[[sl.App, str | None], Any]


def stream(app: sl.App, topic: str = "in") -> KStream[str, str]:
    return app.stream(topic, key=str, value=str)


def table(app: sl.App, topic: str = "rows") -> KTable[str, str]:
    return app.table(topic, key=str, value=str, store=topic)


def grouped(app: sl.App) -> KGroupedStream[str, str]:
    return stream(app).group_by_key()


def rekeyed(app: sl.App) -> KStream[str, str]:
    return stream(app).select_key(lambda k, v: v, key=str)


async def upper(value: str) -> str:
    return value.upper()


def columns(batch: sl.RecordBatch[str, str]) -> list[str]:
    return batch.values


def concat(left: str, right: str) -> str:
    return f"{left}{right}"


SPAN = sl.join_windows("1m")
WINDOWS = sl.tumbling("1m", grace=0)

#: What the names of nodes that are not there without a name are, besides the stores' and topics'.
NAMED: dict[str, tuple[Build, set[str]]] = {
    "source": (lambda a, n: a.stream("in", key=str, value=str, name=n), {"mine"}),
    "table": (lambda a, n: a.table("in", key=str, value=str, name=n), {"mine", "mine-source"}),
    "filter": (lambda a, n: stream(a).filter(bool_of, name=n), {"mine"}),
    "filter_not": (lambda a, n: stream(a).filter_not(bool_of, name=n), {"mine"}),
    "map": (lambda a, n: stream(a).map(lambda k, v: (k, v), name=n), {"mine"}),
    "map_values": (lambda a, n: stream(a).map_values(str.upper, name=n), {"mine"}),
    "map_values_async": (lambda a, n: stream(a).map_values_async(upper, name=n), {"mine"}),
    "map_batches": (lambda a, n: stream(a).map_batches(columns, name=n), {"mine"}),
    "flat_map": (lambda a, n: stream(a).flat_map(lambda k, v: [(k, v)], name=n), {"mine"}),
    "flat_map_values": (lambda a, n: stream(a).flat_map_values(str.split, name=n), {"mine"}),
    "select_key": (lambda a, n: stream(a).select_key(concat, name=n), {"mine"}),
    "peek": (lambda a, n: stream(a).peek(concat, name=n), {"mine"}),
    "foreach": (lambda a, n: stream(a).foreach(concat, name=n), {"mine"}),
    "print": (lambda a, n: stream(a).print(name=n), {"mine"}),
    "to": (lambda a, n: stream(a).to("out", name=n), {"mine"}),
    "merge": (lambda a, n: stream(a).merge(stream(a, "other"), name=n), {"mine"}),
    "process": (lambda a, n: stream(a).process(lambda record: record, name=n), {"mine"}),
    "deduplicate": (lambda a, n: stream(a).deduplicate("1s", store="s", name=n), {"mine"}),
    "to_table": (lambda a, n: stream(a).to_table(store="s", name=n), {"mine"}),
    "to_table repartitioned": (
        lambda a, n: rekeyed(a).to_table(store="s", name=n),
        {"mine", *(f"mine-repartition-{end}" for end in ("sink", "filter", "source"))},
    ),
    "repartition": (
        lambda a, n: stream(a).repartition(name=n),
        {f"mine-repartition-{end}" for end in ("sink", "filter", "source")},
    ),
    "group_by": (lambda a, n: stream(a).group_by(concat, name=n), {"mine"}),
    "stream table join": (lambda a, n: stream(a).join(table(a), concat, name=n), {"mine"}),
    "stream table join behind a topic": (
        lambda a, n: rekeyed(a).left_join(table(a), concat, name=n),
        {"mine", *(f"mine-repartition-{end}" for end in ("sink", "filter", "source"))},
    ),
    "global join": (
        lambda a, n: stream(a).join(
            a.global_table("all", key=str, value=str), concat, on=concat, name=n
        ),
        {"mine"},
    ),
    "stream stream join": (
        lambda a, n: stream(a).join(stream(a, "other"), concat, within=SPAN, name=n),
        {
            "mine-this-windowed",
            "mine-other-windowed",
            "mine-this-join",
            "mine-other-join",
            "mine-merge",
        },
    ),
    "stream stream left join": (
        lambda a, n: stream(a).left_join(stream(a, "other"), concat, within=SPAN, name=n),
        {
            "mine-this-windowed",
            "mine-other-windowed",
            "mine-this-join",
            "mine-outer-other-join",
            "mine-merge",
        },
    ),
    "stream stream outer join": (
        lambda a, n: stream(a).outer_join(stream(a, "other"), concat, within=SPAN, name=n),
        {
            "mine-this-windowed",
            "mine-other-windowed",
            "mine-outer-this-join",
            "mine-outer-other-join",
            "mine-merge",
        },
    ),
    "count": (lambda a, n: grouped(a).count(store="s", name=n), {"mine"}),
    "reduce": (lambda a, n: grouped(a).reduce(concat, store="s", name=n), {"mine"}),
    "aggregate": (
        lambda a, n: grouped(a).aggregate(str, lambda k, v, x: x, store="s", name=n),
        {"mine"},
    ),
    "windowed count": (
        lambda a, n: grouped(a).windowed_by(WINDOWS).count(store="s", name=n),
        {"mine"},
    ),
    "windowed reduce": (
        lambda a, n: grouped(a).windowed_by(WINDOWS).reduce(concat, store="s", name=n),
        {"mine"},
    ),
    "windowed aggregate": (
        lambda a, n: (
            grouped(a).windowed_by(WINDOWS).aggregate(str, lambda k, v, x: x, store="s", name=n)
        ),
        {"mine"},
    ),
    "cogroup": (
        lambda a, n: (
            grouped(a)
            .cogroup(lambda k, v, x: x)
            .cogroup(stream(a, "other").group_by_key(), lambda k, v, x: x)
            .aggregate(str, store="s", name=n)
        ),
        {"mine-cogroup-agg-0", "mine-cogroup-agg-1", "mine-cogroup-merge"},
    ),
    "windowed cogroup": (
        lambda a, n: (
            grouped(a)
            .cogroup(lambda k, v, x: x)
            .windowed_by(WINDOWS)
            .aggregate(str, store="s", name=n)
        ),
        {"mine-cogroup-agg-0", "mine-cogroup-merge"},
    ),
    "table filter": (lambda a, n: table(a).filter(bool_of, name=n), {"mine"}),
    "table filter_not": (lambda a, n: table(a).filter_not(bool_of, store="s", name=n), {"mine"}),
    "table map_values": (lambda a, n: table(a).map_values(str.upper, name=n), {"mine"}),
    "table transform_values": (
        lambda a, n: table(a).transform_values(lambda v: "", store="s", value=str, name=n),
        {"mine"},
    ),
    "to_stream": (lambda a, n: table(a).to_stream(name=n), {"mine"}),
    "to_stream with keys": (lambda a, n: table(a).to_stream(concat, name=n), {"mine"}),
    "table join": (
        lambda a, n: table(a).join(table(a, "more"), concat, name=n),
        {"mine", "mine-join-this", "mine-join-other"},
    ),
    "table outer join": (
        lambda a, n: table(a).outer_join(
            table(a, "more"), lambda v, w: "", value=str, store="s", name=n
        ),
        {"mine", "mine-join-this", "mine-join-other"},
    ),
    "table group_by, count": (
        lambda a, n: table(a).group_by(pair).count(store="s", name=n),
        {"mine", "mine-sink", "mine-sink-filter", "mine-source"},
    ),
    "table group_by": (
        lambda a, n: table(a).group_by(pair, name=n).reduce(concat, concat, store="s"),
        {"mine"},
    ),
    "suppress": (
        lambda a, n: table(a).suppress(sl.until_time_limit("1s"), store="s", name=n),
        {"mine"},
    ),
}


def bool_of(key: str, value: str) -> bool:
    return True


def pair(key: str, value: str) -> tuple[str, str]:
    return key, value


def nodes_of(app: sl.App) -> set[str]:
    parts = app.topology().subtopologies
    return {n.name for part in parts for n in (*part.sources, *part.processors, *part.sinks)}


def built(build: Build, name: str | None) -> sl.App:
    app = sl.App("a")
    build(app, name)
    return app


@pytest.mark.parametrize("operator", NAMED)
def test_the_nodes_have_the_names_of_kafka_streams(operator: str) -> None:
    build, expected = NAMED[operator]
    with_name, without = nodes_of(built(build, "mine")), nodes_of(built(build, None))
    assert {name for name in with_name if name.startswith("mine")} == expected
    rest = with_name - expected
    assert rest <= without
    assert len(with_name) == len(without)


#: Kafka Streams counts a number for each name but those of ``process``, ``repartition`` and
#: ``suppress``.
UNCOUNTED = {"process", "repartition", "suppress"}


@pytest.mark.parametrize("operator", sorted(NAMED.keys() - UNCOUNTED))
def test_a_name_changes_no_other(operator: str) -> None:
    build = NAMED[operator][0]

    assert name_of_a_source_behind(built(build, "mine")) == name_of_a_source_behind(
        built(build, None)
    )


def name_of_a_source_behind(app: sl.App) -> str:
    app.stream("last", key=str, value=str)
    parts = app.topology().subtopologies
    (last,) = (one for part in parts for one in part.sources if "last" in one.topics)
    return last.name


def test_every_operator_takes_a_name() -> None:
    kinds = (
        KStream,
        BranchedKStream,
        CogroupedKStream,
        WindowedCogroupedKStream,
        KGroupedStream,
        KGroupedTable,
        KTable,
        WindowedKStream,
    )
    without = {
        f"{kind.__name__}.{name}"
        for kind in kinds
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
        and name not in UNNAMED
        and "name" not in inspect.signature(method).parameters
    }
    assert without == set()


def test_branches_are_named_by_the_split() -> None:
    app = sl.App("a")
    first = stream(app).split(name="by-").branch(bool_of, name="long").branch(bool_of)
    assert sorted(first.default_branch()) == ["by-0", "by-2", "by-long"]
    stream(app, "other").split().branch(bool_of, name="-long").no_default_branch()
    assert nodes_of(app) == {
        "KSTREAM-SOURCE-0000000000",
        "by-",  # number 1, and a number for each branch
        "by-long",
        "by-2",
        "by-0",
        "KSTREAM-SOURCE-0000000005",
        "KSTREAM-BRANCH-0000000006",
        "KSTREAM-BRANCH-0000000006-long",
    }


def test_the_topic_of_to_table_is_called_by_its_node() -> None:
    app = sl.App("a")
    rekeyed(app).to_table(store="s")
    (part,) = (one for one in app.topology().subtopologies if one.repartitions)
    assert [topic.name for topic in part.repartitions] == [
        "a-KSTREAM-TOTABLE-0000000002-repartition"
    ]


def test_folds_of_one_grouped_table_share_the_node_of_its_keys() -> None:
    app = sl.App("a")
    groups = table(app).group_by(pair)
    groups.count(store="counts")
    groups.reduce(concat, concat, store="all")
    assert len([one for one in nodes_of(app) if one.startswith("KTABLE-SELECT-")]) == 1
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("rows", "a", "x")
        assert (driver.store("counts").get("a"), driver.store("all").get("a")) == (1, "x")


def test_a_suppression_calls_its_store_by_its_name() -> None:
    app = sl.App("a")
    table(app).suppress(sl.until_time_limit("1s"), name="mine")
    stores = {store.name for part in app.topology().subtopologies for store in part.stores}
    assert stores == {"rows", "mine-store"}


def test_names_of_a_join_by_foreign_keys_use_up_numbers() -> None:
    def last(name: str | None) -> str:
        app = sl.App("a")
        table(app).join(table(app, "more"), concat, foreign_key=lambda v: v, store="s", name=name)
        return name_of_a_source_behind(app)

    assert last("mine") == last(None)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "name=: expected ASCII letters"),
        ("a b", "name=: expected ASCII letters"),
        ("..", "name=: expected ASCII letters"),
        ("x" * 250, "would have 250 characters"),
        ("KSTREAM-FILTER-0000000001", "names that begin with KSTREAM-.* are made up by streamlet"),
        ("KTABLE-mine", "are made up"),
    ],
)
def test_a_name_that_is_none_is_refused(name: str, message: str) -> None:
    app = sl.App("a")
    with pytest.raises(TopologyError, match=message):
        stream(app).filter(bool_of, name=name)


def test_a_name_given_twice_is_refused() -> None:
    app = sl.App("a")
    once = stream(app).filter(bool_of, name="mine")
    with pytest.raises(TopologyError, match="there are two nodes named 'mine'; give one another"):
        once.map_values(str.upper, name="mine")


def test_a_topic_has_one_source_with_one_name() -> None:
    app = sl.App("a")
    app.stream("in", key=str, value=str, name="mine").foreach(concat)
    app.stream("in", key=str, value=str, name="mine")
    app.stream("in", key=str, value=str)
    with pytest.raises(TopologyError, match="'in' is read twice, as 'mine' and 'other'"):
        app.stream("in", key=str, value=str, name="other")


def test_an_operator_with_a_name_does_what_it_does_without() -> None:
    app = sl.App("a")
    words = stream(app).flat_map_values(str.split, name="split").filter(bool_of, name="some")
    counts = words.group_by(lambda k, v: v, key=str, name="by-word").count(name="count")
    counts.to_stream(name="changes").to("out", name="written")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "a", "to be to")
        out = driver.read_output("out")
    assert [(record.key, record.value) for record in out] == [("to", 1), ("be", 1), ("to", 2)]
