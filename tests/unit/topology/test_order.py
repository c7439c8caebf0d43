"""Which nodes must hand on record by record, because order inside a batch could be seen."""

from __future__ import annotations

from streamlet.app import App
from streamlet.topology.order import forks_of

SOURCE = "KSTREAM-SOURCE-0000000000"


def cuts(app: App) -> set[str]:
    return {name for part in app.topology().subtopologies for name in forks_of(part).cut}


def gathered(app: App) -> dict[str, str]:
    parts = app.topology().subtopologies
    return {fork: node for part in parts for fork, node in forks_of(part).gathered.items()}


def test_a_fork_into_two_topics_is_not_cut() -> None:
    app = App("a")
    stream = app.stream("in", key=str, value=str)
    stream.to("x")
    stream.map_values(str.upper, value=str).to("y")
    assert cuts(app) == set()


def test_a_fork_whose_branches_merge_is_gathered_there() -> None:
    app = App("a")
    stream = app.stream("in", key=str, value=str)
    stream.filter(lambda k, v: True).merge(stream.filter_not(lambda k, v: True)).to("out")
    assert cuts(app) == set()
    assert gathered(app) == {SOURCE: "KSTREAM-MERGE-0000000003"}


def test_a_branch_that_leads_elsewhere_does_not_hinder_those_that_merge() -> None:
    app = App("a")
    stream = app.stream("in", key=str, value=str)
    one, two, rest = (stream.filter(lambda k, v: True) for _ in range(3))
    rest.group_by_key().count()
    one.merge(two).to("out")
    assert cuts(app) == set()
    assert list(gathered(app)) == [SOURCE]


def test_branches_that_merge_two_by_two_are_gathered_at_the_last() -> None:
    app = App("a")
    stream = app.stream("in", key=str, value=str)
    one, two, three = (stream.filter(lambda k, v: True) for _ in range(3))
    one.merge(two).merge(three).to("out")
    assert cuts(app) == set()
    assert gathered(app) == {SOURCE: "KSTREAM-MERGE-0000000005"}


def test_branches_that_merge_are_cut_if_one_keeps_something() -> None:
    app = App("a")
    stream = app.stream("in", key=str, value=str)
    counts = stream.group_by_key().count().to_stream().map_values(str, value=str)
    stream.merge(counts).to("out")
    assert cuts(app) == {SOURCE}
    assert gathered(app) == {}


def test_branches_that_merge_are_cut_if_one_writes_before() -> None:
    app = App("a")
    stream = app.stream("in", key=str, value=str)
    one, two = (stream.filter(lambda k, v: True) for _ in range(2))
    one.to("log")
    two.to("log")
    one.merge(two).to("out")
    assert cuts(app) == {SOURCE}


def test_only_the_fork_is_cut_not_what_is_above_it() -> None:
    app = App("a")
    stream = app.stream("in", key=str, value=str).peek(print)
    stream.to("out")
    stream.filter(lambda k, v: True).to("out")
    assert cuts(app) == {"KSTREAM-PEEK-0000000001"}


def test_a_fork_whose_branches_write_one_topic_is_cut() -> None:
    app = App("a")
    stream = app.stream("in", key=str, value=str)
    stream.to("out")
    stream.map_values(str.upper, value=str).to("out")
    assert cuts(app) == {SOURCE}


def test_two_sources_that_merge_are_not_cut() -> None:
    app = App("a")
    one, two = (app.stream(topic, key=str, value=str) for topic in ("a", "b"))
    one.merge(two).to("out")
    assert cuts(app) == set()


def test_branches_that_only_read_a_store_are_not_cut() -> None:
    app = App("a")
    table = app.table("t", key=str, value=str)
    stream = app.stream("in", key=str, value=str)
    stream.join(table, lambda v, row: row).peek(print)
    stream.left_join(table, lambda v, row: row).peek(print)
    assert cuts(app) == set()


def test_a_branch_that_reads_the_store_another_branch_writes_is_cut() -> None:
    app = App("a")
    stream = app.stream("in", key=str, value=str)
    counts = stream.group_by_key().count()
    stream.join(counts, lambda v, count: count).peek(print)
    assert cuts(app) == {SOURCE}


def test_a_node_that_reads_a_store_written_above_it_has_the_cut_above_the_writer() -> None:
    app = App("a")
    counts = app.stream("in", key=str, value=str).group_by_key().count()
    counts.to_stream().join(counts, lambda change, count: count).peek(print)
    assert cuts(app) == {SOURCE}


def test_a_stream_merged_with_itself_is_gathered() -> None:
    app = App("a")
    stream = app.stream("in", key=str, value=str)
    stream.merge(stream).to("out")
    assert cuts(app) == set()
    assert gathered(app) == {SOURCE: "KSTREAM-MERGE-0000000001"}


def test_branches_that_meet_behind_a_repartition_topic_meet_in_that_topic() -> None:
    app = App("a")
    stream = app.stream("in", key=str, value=str)
    grouped = stream.group_by(lambda k, v: v, key=str, name="by-value")
    grouped.count(store="one")
    grouped.reduce(lambda a, b: b, store="two")
    assert cuts(app) == set()
