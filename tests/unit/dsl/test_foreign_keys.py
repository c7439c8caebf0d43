"""Joins of tables by foreign keys: joiners, failures, partition counts, names, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from streamlet.app import App
from streamlet.dsl.foreign_keys import right_side, wire, wire_columns
from streamlet.dsl.foreign_keys.answer_fence import AnswerFence
from streamlet.dsl.table import KTable
from streamlet.errors import SerdeError, TopologyError
from streamlet.reset.ownership import candidates
from streamlet.serdes import serde
from streamlet.spark.plan.plan import plan
from streamlet.testing.driver import TopologyTestDriver
from streamlet.topology.edges import edges_of
from streamlet.topology.moved import check_moved
from tests.unit.dsl.facts import facts
from tests.unit.dsl.foreign_tasks import ForeignCluster

Rows = KTable[str, Any]


def tables(app: App, **more: Any) -> tuple[KTable[str, int], KTable[int, str]]:
    left = app.table("left", key=str, value=int, **more)
    return left, app.table("right", key=int, value=str)


def sent(driver: TopologyTestDriver) -> list[tuple[Any, Any]]:
    return [(record.key, record.value) for record in driver.read_output("out")]


JOINERS: list[tuple[Callable[..., str], str]] = [
    (lambda left, right: f"{left} {right}", "12 b"),
    (lambda key, left, right: f"{key} {left} {right}", "k 12 b"),
    (lambda key, foreign, left, right: f"{key} {foreign} {left} {right}", "k 2 12 b"),
    (lambda *all_: f"{all_}", "(12, 'b')"),
]


@pytest.mark.parametrize(("joiner", "expected"), JOINERS)
@pytest.mark.parametrize("kind", ["join", "left_join"])
def test_a_joiner_takes_both_rows_with_the_key_or_both_keys_before_them(
    kind: str, joiner: Any, expected: str
) -> None:
    app = App("a")
    left, right = tables(app)
    table = getattr(left, kind)(right, joiner, foreign_key=lambda v: v % 10, value=str)
    table.to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("right", 2, "b")
        driver.pipe_input("left", "k", 12)
        assert sent(driver) == [("k", expected)]


def test_a_foreign_key_may_be_made_of_the_key() -> None:
    app = App("a")
    left, right = tables(app)
    table = left.join(right, lambda v, r: r, foreign_key=lambda k, v: len(k), value=str)
    table.to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("right", [(2, "b"), (3, "")])
        driver.pipe_inputs("left", [("ab", 1), ("abc", 1), ("a", 1)])
        assert sent(driver) == [("ab", "b"), ("abc", "")]
    said = facts(KTable.join)["nulls"]
    assert said.endswith("A row whose foreign key is None has no match, and is counted as dropped.")


@pytest.mark.parametrize("kind", ["join", "left_join"])
def test_a_foreign_key_that_is_none_has_no_match(kind: str) -> None:
    app = App("a")
    left, right = tables(app)
    joiner: Any = lambda v, r: f"{v} {r}"  # noqa: E731
    join: Any = getattr(left, kind)
    table = join(right, joiner, foreign_key=lambda v: v or None, value=str, store="joined")
    table.to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("right", 2, "b")
        for key, value in [("k", 2), ("k", 0), ("m", 0), ("m", None)]:
            driver.pipe_input("left", key, value)
        kept = [("k", "2 b"), ("k", "0 None"), ("m", "0 None"), ("m", None)]
        assert sent(driver) == (kept if kind == "left_join" else [("k", "2 b"), ("k", None)])
        assert list(driver.store("joined").range()) == ([("k", "0 None")] * (kind == "left_join"))
        assert driver.dropped() == (2 if kind == "join" else 0)


def test_what_fails_is_one_record_and_the_rest_goes_on() -> None:
    app = App("a", on_error="skip")
    left, right = tables(app)
    wrong: Any = lambda v: "text" if v == 3 else 10 // v  # noqa: E731
    joiner: Any = lambda v, r: [r] if r == "bad" else r  # noqa: E731
    left.join(right, joiner, foreign_key=wrong, value=str, store="joined").to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("right", [(10, "b"), (5, "bad")])
        driver.pipe_inputs("left", [("k", 0), ("l", 1), ("m", 3), ("n", 2), ("o", 1)])
        assert sent(driver) == [("l", "b"), ("o", "b")]
        assert driver.skipped() == 3
        assert list(driver.store("joined").range()) == [("l", "b"), ("o", "b")]


def test_a_change_that_many_rows_asked_for_is_sent_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(right_side, "PART", 2)
    app = App("a")
    left, right = tables(app)
    left.join(right, lambda v, r: r, foreign_key=lambda v: v, value=str).to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("left", [(f"k{number}", 1) for number in range(5)])
        driver.pipe_inputs("right", [(2, "x"), (1, "y"), (1, None)])
        keys = [f"k{number}" for number in range(5)]
        assert sent(driver) == [(key, "y") for key in keys] + [(key, None) for key in keys]


def test_a_key_that_begins_like_another_one_is_another_one() -> None:
    app = App("a")
    left = app.table("left", key=str, value=str)
    right = app.table("right", key=str, value=str)
    left.join(right, lambda v, r: r, foreign_key=lambda v: v, value=str).to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("left", [("k", "a"), ("l", "ab"), ("m", "")])
        driver.pipe_inputs("right", [("a", "1"), ("ab", "2"), ("", "3")])
        assert sent(driver) == [("k", "1"), ("l", "2"), ("m", "3")]


def test_an_answer_that_comes_too_late_is_dropped_and_counted() -> None:
    app = App("a")
    left, right = tables(app)
    left.left_join(
        right, lambda v, r: f"{v} {r}", foreign_key=lambda v: v, value=str
    ).to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("left", [("k", 1), ("k", 2), ("k", 3)])  # all before the first answer
        assert sent(driver) == [("k", "3 None")]
        assert driver.dropped() == 2


def test_a_table_may_be_joined_with_itself_and_the_result_with_another() -> None:
    """Employees with the names of their superiors, and those with the names of their rooms."""
    app = App("a")
    staff = app.table("staff", key=str, value=str)
    rooms = app.table("rooms", key=str, value=str)
    above = staff.left_join(staff, lambda mine, theirs: f"{mine} {theirs}", foreign_key=lambda v: v)
    placed = above.left_join(
        rooms, lambda key, row, room: f"{row} {room}", foreign_key=lambda k, row: k, value=str
    )
    placed.to_stream().to("out")
    with TopologyTestDriver(app, partitions={"staff": 2, "rooms": 3}) as driver:
        driver.pipe_inputs("staff", [("ann", "bob"), ("bob", "bob"), ("cat", "ann")])
        driver.pipe_inputs("rooms", [("ann", "1"), ("cat", "3")])
        driver.pipe_input("staff", "bob", None)
        found = dict(sent(driver))
    assert found == {"ann": "bob None 1", "bob": None, "cat": "ann bob 3"}


def test_topics_of_the_join_have_as_many_partitions_as_what_is_read_beside_them() -> None:
    app = App("a")
    left, right = tables(app)
    left.join(right, lambda v, r: r, foreign_key=lambda v: v, value=str, name="fk")
    topology = app.topology()
    assert topology.partition_counts({"left": 2, "right": 5}) == {
        "left": 2,
        "right": 5,
        "a-fk-subscription-registration-topic": 5,
        "a-fk-subscription-response-topic": 2,
    }
    assert [part.input_topics for part in topology.subtopologies] == [
        ("left", "a-fk-subscription-response-topic"),
        ("right", "a-fk-subscription-registration-topic"),
    ]


def test_tables_behind_repartition_topics_may_be_joined() -> None:
    """The tasks of both write to each other, so neither side can wait for the other's count."""
    app = App("a")
    words = app.stream("words", key=str, value=str)
    counts = words.group_by(lambda k, v: v, name="by-word").count(store="counts")
    lengths = app.stream("other", key=str, value=int).group_by(lambda k, v: v, name="by-length")
    table = counts.join(
        lengths.count(store="lengths"),
        lambda one, two: one + two,
        foreign_key=lambda n: n,
        value=int,
        name="fk",
    )
    table.to_stream().to("out")
    found = app.topology().partition_counts({"words": 2, "other": 3})
    assert found["a-fk-subscription-registration-topic"] == found["a-by-length-repartition"] == 3
    assert found["a-fk-subscription-response-topic"] == found["a-by-word-repartition"] == 2


def test_made_up_names_are_those_of_kafka_streams() -> None:
    """The numbers are those of its tests for tables without stores of a name."""
    app = App("a")
    left, right = tables(app)
    table = left.join(right, lambda v, r: r, foreign_key=lambda v: v, value=str)
    assert table.store == "KTABLE-FK-JOIN-OUTPUT-STATE-STORE-0000000019"
    topology = app.topology()
    prefix = "a-KTABLE-FK-JOIN-SUBSCRIPTION"
    topics = [f"{prefix}-REGISTRATION-0000000006-topic", f"{prefix}-RESPONSE-0000000014-topic"]
    assert [*topology.repartition_topics] == topics
    names = [node.name for part in topology.subtopologies for node in part.processors]
    assert sorted(names) == [
        "KTABLE-FK-JOIN-OUTPUT-0000000018",
        "KTABLE-FK-JOIN-SUBSCRIPTION-PROCESSOR-0000000011",
        "KTABLE-FK-JOIN-SUBSCRIPTION-PROCESSOR-0000000012",
        "KTABLE-FK-JOIN-SUBSCRIPTION-PROCESSOR-0000000013",
        "KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000007",
        "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-0000000017",
        "KTABLE-SOURCE-0000000002",
        "KTABLE-SOURCE-0000000005",
    ]
    with pytest.raises(TopologyError, match=r"RESPONSE-0000000012-topic became .*0000000014-topic"):
        check_moved(topology, "a", [f"{prefix}-RESPONSE-0000000012-topic"])
    others = ["a-orders-topic", "a-x-subscription-response-topic", "b-KTABLE-x-topic", "a-topic"]
    assert candidates([*topics, *others], "a") == sorted([*topics, others[1]])


def test_what_is_asked_for_is_exact_and_answers_are_not() -> None:
    app = App("a")
    left, right = tables(app)
    left.join(right, lambda v, r: r, foreign_key=lambda v: v, value=str, name="fk")
    asked, answered = edges_of(app.topology())
    assert (asked.topic, asked.exact) == ("a-fk-subscription-registration-topic", True)
    assert answered.topic == "a-fk-subscription-response-topic"
    assert answered.reason is not None
    assert "has a store and reads right, a-fk-subscription-registration-topic" in answered.reason


def test_results_cannot_be_written_with_origins() -> None:
    app = App("a")
    left, right = tables(app)
    table = left.join(right, lambda v, r: r, foreign_key=lambda v: v, value=str, name="fk")
    table.to_stream().to("out", origin=True)
    with pytest.raises(TopologyError, match=r"join by foreign keys \(a-fk-subscription-response-"):
        app.topology()


def test_one_spark_query_cannot_do_it_and_says_why() -> None:
    app = App("a")
    left, right = tables(app)
    left.join(right, lambda v, r: r, foreign_key=lambda v: v, value=str, name="fk")
    with pytest.raises(TopologyError, match="on Spark, where a query has no way back") as raised:
        plan("m:a", app.topology(), {"left": 1, "right": 1})
    assert "fk-subscription-response-resolver" in str(raised.value)


def test_what_cannot_be_joined_is_named() -> None:
    app = App("a")
    left, right = tables(app)
    made = left.map_values(lambda v: (v, v)[0])
    anything: Any = lambda *values: ""  # noqa: E731
    stream: Any = left.to_stream()
    with pytest.raises(TopologyError, match=r"^left_join\(\): a table joins with a table, not KSt"):
        left.left_join(stream, anything, foreign_key=anything)
    with pytest.raises(TopologyError, match=r"their type is not known after map_values\(\)"):
        made.join(right, anything, foreign_key=anything, value=str)
    with pytest.raises(TopologyError, match=r"^join\(\), foreign_key= calls its function as \(val"):
        left.join(right, anything, foreign_key=lambda: 1, value=str)  # type: ignore[call-overload]
    with pytest.raises(TopologyError, match=r"^join\(\) calls its function as \(left, right\)"):
        left.join(right, lambda v: v, foreign_key=anything)  # type: ignore[call-overload]
    with pytest.raises(TopologyError, match="different applications"):
        left.join(tables(App("b"))[1], anything, foreign_key=anything, value=str)


@attrs.define
class Priced:
    price: float
    tags: set[int]


def test_a_digest_stays_when_a_value_is_written_and_read_again() -> None:
    """An int where a float is declared returns as a float, and sets have no order."""
    kind = serde(Priced).as_value
    assert kind is not None
    digests = wire.digests(kind)
    one, other = Priced(1, {0, 8}), Priced(1.0, {8, 0})
    assert kind.encode(one) != kind.encode(other)
    first, second, again, another, none = digests(
        [one, other, kind.decode(kind.encode(one)), Priced(2, {0, 8}), None]
    )
    assert first == second == again
    assert first != another
    assert none is None
    plain: Any
    pairs: list[tuple[Any, Any]] = [
        (str, "a"),
        (int, 1),
        (float, 1),
        (dict, {"b": [1], "a": 2.0, "c": Size(2, 1), "d": {"z": None, "y": (1, "ü")}}),
    ]
    for of, value in pairs:
        plain = serde(of)
        read = plain.decode(plain.encode(value))
        assert len({*wire.digests(plain)([value, value, read])}) == 1


@attrs.define
class Size:
    """A class whose fields are in no order of names."""

    width: int
    height: int


def test_a_document_that_cannot_be_read_again_has_no_digest() -> None:
    digests = wire.digests(serde(dict))
    for wrong in ([{1: 2}], [None, {"a": {1}}], [{"a": 1}, [1]]):
        with pytest.raises(SerdeError):
            list(digests(wrong))


def test_answers_count_for_rows_that_were_restored_as_other_objects() -> None:
    app = App("a")
    raw = app.table("left", key=str, value=int)
    left = raw.map_values(lambda v: Priced(v, {0, 8}), value=Priced, store="left-rows")
    right = app.table("right", key=int, value=str)
    table = left.join(right, lambda v, r: r, foreign_key=lambda v: int(v.price), value=str)
    table.to_stream().to("out")
    cluster = ForeignCluster(app, {"left": 1, "right": 1})
    cluster.write("left", 0, (b"k", serde(int).encode(7), 1))
    cluster.settle()
    for number in range(len(cluster.tasks)):
        cluster.commit(number)
        cluster.crash(number)
    cluster.write("right", 0, (serde(int).encode(7), b"r", 2))
    cluster.settle()
    assert cluster.rows(table.store) == [("k", "r")]


@pytest.mark.parametrize("digest", [None, b"0123456789abcdef"])
@pytest.mark.parametrize("value", [None, b"", b"x"])
def test_subscriptions_and_answers_are_read_as_they_were_written(
    digest: bytes | None, value: bytes | None
) -> None:
    here = wire.partition_bytes(70_000)
    raw = wire.subscription(wire.SUBSCRIBE, digest, value or b"", here)
    assert wire.subscribed(raw) == (wire.SUBSCRIBE, digest, value or b"", here)
    with pytest.raises(ValueError, match="of version 2 wrote this, not 1"):
        wire.subscribed(bytes((2,)) + raw[1:])
    source = wire.source_of(3, 9)
    raw = wire.answer(here, source, digest, value)
    assert wire.answered(raw) == (source, digest, value)
    other = wire.answer(b"\0\0\0\7", source, None, None)
    assert wire_columns.partitions_of([raw, other]) == [70_000, 7]
    older = raw[:4] + bytes((raw[4] - 1,)) + raw[5 + len(source) :]
    assert wire.answered(older) == (b"", digest, value)
    with pytest.raises(ValueError, match="of version 3 wrote this, not 2"):
        wire.answered(raw[:4] + bytes((3,)) + raw[5:])


def test_answers_of_a_former_owner_pass_before_the_first_of_its_successor_only() -> None:
    fence, old, new = AnswerFence(), wire.source_of(1, 5), wire.source_of(1, 6)
    other = wire.source_of(0, 1)
    assert fence.passing([old, b"", other], [3, 4, 5]) == [True] * 3
    assert fence.passing([old, other], [6, 7]) is None
    assert fence.passing([other, new, old, b"", new], [8, 9, 10, 11, 12]) == [1, 1, 0, 1, 1]
    assert fence.passing([old], [7]) == [True], "records of other keys may come in another order"
