"""Two programs of one application that number their subtopologies differently."""

from __future__ import annotations

from dataclasses import make_dataclass
from typing import Any

from streamlet import App, avro
from streamlet.rebalance.numbering import (
    MARKS,
    NOTHING_SHARED,
    Difference,
    Moved,
    described,
    difference,
    moved,
    packed,
    refusal,
)


def belongings(app: App) -> list[tuple[str, ...]]:
    return [part.belongings for part in app.topology().subtopologies]


def count(app: App, topic: str) -> None:
    app.stream(topic, key=str, value=int).group_by_key().count(store=f"{topic}-store")


def made(*topics: str) -> list[tuple[str, ...]]:
    app = App("app")
    for topic in topics:
        count(app, topic)
    return belongings(app)


def test_the_names_of_a_subtopology_are_what_it_reads_and_keeps() -> None:
    app = App("app")
    words = app.stream("in", key=str, value=str)
    words.group_by(lambda k, v: v).count(store="counts").to_stream().to("out")
    between, types = "topic app-counts-repartition", "types of counts: str -> int"
    assert belongings(app) == [("topic in",), ("store counts", between, types)]


def test_a_source_in_front_moves_what_both_have_and_one_behind_moves_nothing() -> None:
    old = packed(made("a", "b"))
    assert moved(made("new", "a", "b"), old) == (
        Moved("store a-store", 1, 0),
        Moved("topic a", 1, 0),
        Moved("store b-store", 2, 1),
        Moved("topic b", 2, 1),
    )
    assert moved(made("a", "b", "new"), old) == ()
    assert moved(made("a"), old) == ()
    assert moved(made("other"), old) == ()
    assert [one.name for one in moved(made("b", "a"), old)][::2] == [
        "store b-store",
        "store a-store",
    ]


def test_a_member_that_does_not_say_what_it_has_is_not_compared() -> None:
    assert moved(made("a", "b"), ()) == ()


def test_the_error_names_what_moved_and_what_can_be_done() -> None:
    moves = moved(made("new", "a", "b"), packed(made("a", "b")))
    text = refusal(described(moves), " (h1, h2)")
    assert "topic a belongs to subtopology 1 here and to 0 there" in text
    assert "and 1 more" in text
    assert "in the instances that run (h1, h2)" in text
    assert "Stop all instances" in text
    assert moves[0].seen_from_there == Moved("store a-store", 0, 1)


def test_programs_that_can_run_in_one_group_do_not_differ() -> None:
    assert difference(made("a"), packed(made("a", "new"))) is None
    assert difference(made("a"), ()) is None
    assert difference([()], packed(made("a"))) is None


def test_numbers_that_shifted_are_told_from_both_sides() -> None:
    found = difference(made("new", "a"), packed(made("a")))
    assert found is not None
    assert "topic a belongs to subtopology 1 here and to 0 there" in found.here
    assert "topic a belongs to subtopology 0 here and to 1 there" in found.there


def test_programs_with_nothing_in_common_are_two_applications() -> None:
    assert difference(made("a"), packed(made("b"))) == Difference(NOTHING_SHARED, NOTHING_SHARED)
    text = refusal(NOTHING_SHARED, " (h1)")
    assert "the instances that run (h1) are of another application under the same id" in text
    assert "another id" in text


def test_a_store_that_holds_other_types_is_named_with_its_own() -> None:
    texts = App("app")
    stream = texts.stream("a", key=str, value=int)
    stream.group_by_key().aggregate(str, lambda k, v, text: text, store="a-store")
    found = difference(belongings(texts), packed(made("a")))
    assert found is not None
    assert found.here == "store a-store has other types there than here (str -> str)"
    assert "the state has other types here" in refusal(found.here)


def keeping(value: Any) -> list[tuple[str, ...]]:
    app = App("app")
    stream = app.stream("a", key=str, value=str)
    stream.group_by_key().aggregate(dict, lambda k, v, kept: kept, store="kept", value=value)
    stream.group_by_key().count(store="counts")
    return belongings(app)


def earlier(names: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """As a version before marks had them."""
    return [tuple(name for name in part if not name.startswith(MARKS)) for part in names]


def in_module(module: str) -> Any:
    order = make_dataclass("Order", [("n", int)])
    order.__module__ = module
    return dict[str, order]  # type: ignore[valid-type]


def by_schema(*fields: str) -> Any:
    named = [{"name": name, "type": "int"} for name in fields]
    return avro({"type": "record", "name": "Order", "fields": named})


def test_a_class_in_a_container_may_move_to_another_module() -> None:
    before, after = keeping(in_module("shop")), keeping(in_module("sales"))
    assert difference(after, packed(before)) is None
    assert difference(before, packed(after)) is None
    assert difference(after, packed(earlier(after))) is None
    assert difference(earlier(after), packed(after)) is None
    found = difference(after, packed(earlier(before)))
    assert found is not None
    assert "kept has other types" in found.here, "an earlier version noted the module"


def test_another_avro_schema_in_a_store_is_refused() -> None:
    before, after = keeping(by_schema("a")), keeping(by_schema("a", "b"))
    assert difference(before, packed(before)) is None
    for one, other in ((before, after), (after, before)):
        found = difference(one, packed(other))
        assert found is not None
        assert "store kept has other types there than here (str -> avro(Order, schema" in found.here
    assert difference(after, packed(earlier(before))) is None, "which noted no schema"


def test_marks_alone_are_nothing_in_common() -> None:
    other = App("app")
    stream = other.stream("b", key=str, value=str)
    stream.group_by_key().aggregate(
        dict, lambda k, v, kept: kept, store="other", value=by_schema("a")
    )
    found = difference(keeping(by_schema("a")), packed(belongings(other)))
    assert found == Difference(NOTHING_SHARED, NOTHING_SHARED)
