"""What users of dicts, frames and other libraries try on streamlet's objects is told in words."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest

import streamlet as sl
from streamlet.absent_names import FIRST, HABITS, OPERATORS
from streamlet.errors import ProcessingError, TopologyError, WrongTypeError, WrongValueError
from streamlet.testing import TopologyTestDriver

ROWS = sl.key_value_store("rows", key=str, value=int)


def objects() -> dict[str, Any]:
    app = sl.App("habits")
    stream = app.stream("in", key=str, value=int)
    grouped, table = stream.group_by_key(), app.table("t", key=str, value=int)
    cogrouped = grouped.cogroup(lambda key, value, total: total)
    return {
        "App": app,
        "KStream": stream,
        "KTable": table,
        "KGroupedStream": grouped,
        "KGroupedTable": table.group_by(lambda key, value: (key, value)),
        "WindowedKStream": grouped.windowed_by(sl.tumbling("1m")),
        "CogroupedKStream": cogrouped,
        "WindowedCogroupedKStream": cogrouped.windowed_by(sl.tumbling("1m")),
        "GlobalKTable": app.global_table("g", key=str, value=int),
        "BranchedKStream": stream.split(),
        "StoreBuilder": ROWS,
    }


def test_each_operator_that_a_class_lacks_has_a_sentence() -> None:
    made = objects()
    classes = [type(made[name]) for name in FIRST]
    public = {
        name
        for one in classes
        for name, _ in inspect.getmembers(one, inspect.isfunction)
        if not name.startswith("_")
    }
    own_ways = {"branch", "child", "default_branch", "no_default_branch"}
    assert public - own_ways == OPERATORS
    for kind in FIRST:
        for name in OPERATORS - set(dir(type(made[kind]))):
            with pytest.raises(AttributeError, match=f"^{kind} has no {name}: ") as raised:
                getattr(made[kind], name)
            assert len(str(raised.value)) > len(f"{kind} has no {name}: ") + 10


@pytest.mark.parametrize("name", sorted(objects().keys() & HABITS.keys()))
def test_what_a_class_is_said_to_lack_is_no_name_of_its_own(name: str) -> None:
    assert HABITS[name].keys() & set(dir(type(objects()[name]))) == set()


def of_a_processor(use: Callable[[sl.Record[str, int], Any], object]) -> str:
    """The message of what a processor does to its context."""
    app = sl.App("habits")

    def called(record: sl.Record[str, int], context: sl.ProcessorContext[str, int]) -> None:
        use(record, context)

    app.stream("in", key=str, value=int).process(called, stores=[ROWS])
    with TopologyTestDriver(app) as driver, pytest.raises(ProcessingError) as raised:
        driver.pipe_input("in", "a", 1)
    return str(raised.value)


@pytest.mark.parametrize("name", HABITS["KeyValueStore"])
def test_names_of_a_dict_are_told_of_at_a_store(name: str) -> None:
    said = of_a_processor(lambda record, context: getattr(context.store(ROWS), name))
    assert f"KeyValueStore has no {name}: {HABITS['KeyValueStore'][name]};" in said


@pytest.mark.parametrize("name", HABITS["ProcessorContext"])
def test_names_of_neighbours_are_told_of_at_a_context(name: str) -> None:
    said = of_a_processor(lambda record, context: getattr(context, name))
    assert f"ProcessorContext has no {name}: {HABITS['ProcessorContext'][name]};" in said


@pytest.mark.parametrize("name", HABITS["State"])
def test_names_of_other_states_are_told_of_at_a_state(name: str) -> None:
    app = sl.App("habits")
    lines = app.stream("in", key=str, value=int)
    lines.process(lambda record, state: getattr(state, name))
    said = f"State has no {name}: {HABITS['State'][name].replace('[', '.')[:12]}"
    with TopologyTestDriver(app) as driver, pytest.raises(ProcessingError, match=said):
        driver.pipe_input("in", "a", 1)


def set_item(given: Any) -> None:
    given["a"] = 1


@pytest.mark.parametrize(
    "use",
    [lambda one: one["a"], set_item, list, lambda one: "a" in one],
    ids=["[]", "[]=", "for", "in"],
)
def test_brackets_and_loops_are_told_of(use: Callable[[Any], object]) -> None:
    made = objects()
    for name in ("KStream", "KTable"):
        with pytest.raises(WrongTypeError, match=f"^{name} has no items: r.* functions"):
            use(made[name])
        assert made[name], "an if does not call them"
    said = of_a_processor(lambda record, context: use(context.store(ROWS)))
    assert "KeyValueStore has no items: get(key) reads" in said


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (
            lambda store: store.get("a", 0),
            r"get\(key\) takes no other arguments: it has no default",
        ),
        (lambda store: store.get("a", default=0), r"get\(key\) takes no other .* gives None for"),
        (lambda store: store.put("a", 1, 7), r"put\(key, value\) takes no other .*timestamped_sto"),
        (lambda store: store.delete("a", 0), r"delete\(\) takes .*; it is called as delete\(key\)"),
        (lambda store: store.range(lo="a"), r"'lo'; did you mean low=\?; it is called as range\("),
        (lambda store: store.all("a"), r"all\(\) takes .*; it is called as all\(\)"),
    ],
)
def test_arguments_that_a_store_does_not_take_are_told_of(
    use: Callable[[Any], object], said: str
) -> None:
    assert re.search(said, of_a_processor(lambda record, context: use(context.store(ROWS))))
    timed = sl.timestamped_store("timed", key=str, value=int)
    lately = sl.lru_store("lately", key=str, value=int, max_entries=3)
    app = sl.App("habits")
    app.stream("in", key=str, value=int).process(
        lambda record, context: None, stores=[timed, lately]
    )
    with TopologyTestDriver(app) as driver:
        for builder in (timed, lately):
            if builder is timed and "put" in said:
                continue
            with pytest.raises(WrongTypeError, match=said):
                use(driver.store(builder))


def test_a_batch_of_records_says_that_it_has_columns() -> None:
    batch = sl.RecordBatch(["a"], [1], [0])
    for use in (list, lambda one: one[0]):
        with pytest.raises(WrongTypeError, match=r"^RecordBatch has no items: its columns are"):
            use(batch)  # type: ignore[operator]


def test_a_store_that_is_described_is_not_the_store() -> None:
    with pytest.raises(AttributeError, match=r"^StoreBuilder has no put: context.store\(builder\)"):
        ROWS.put("a", 1)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "take",
    [pickle.dumps, copy.copy, copy.deepcopy],
    ids=["pickle", "copy", "deepcopy"],
)
def test_an_app_is_neither_pickled_nor_copied(take: Callable[[object], object]) -> None:
    app = sl.App("one")
    with pytest.raises(WrongTypeError, match=r"^App 'one', its .*imports the module that makes"):
        pickle.dumps(app.stream("in", key=str, value=int))
    with pytest.raises(WrongTypeError, match=r"^App 'one', its .*imports the module that makes"):
        take(app)


@pytest.mark.parametrize("take", [pickle.dumps, copy.copy, copy.deepcopy])
def test_what_works_on_something_is_not_copied(take: Callable[[object], object]) -> None:
    with TopologyTestDriver(objects()["App"]) as driver:
        with pytest.raises(
            WrongTypeError, match=r"^a TopologyTestDriver cannot be .*: make another"
        ):
            take(driver)
        (store,) = driver.get_all_state_stores().values()
        with pytest.raises(WrongTypeError, match=r"^a KeyValueStore cannot be .*: dict\(store.all"):
            take(store)
    consumer = sl.Consumer("lines", "readers", bootstrap_servers="127.0.0.1:1")
    with pytest.raises(WrongTypeError, match=r"^a Consumer cannot be pickled or copied: make one"):
        take(consumer)
    consumer.close(0)
    said = of_a_processor(lambda record, context: take(context))
    assert "a ProcessorContext cannot be pickled or copied: each processor has one" in said


def test_a_stream_is_not_copied_with_its_topology() -> None:
    lines = sl.App("one").stream("in", key=str, value=int)
    with pytest.raises(WrongTypeError, match="pickled or copied"):
        copy.deepcopy(lines)


class _Forgetful(sl.App):
    def __init__(self) -> None:
        self.region = "north"


class _Own(sl.App):
    def __init__(self) -> None:
        super().__init__("own")
        self.config = {"region": "north"}


def test_a_class_below_app_that_forgets_to_make_it_is_told_so() -> None:
    with pytest.raises(AttributeError, match=r"^_Forgetful is not made yet: its __init__\(\) has"):
        _Forgetful().stream("in", key=str, value=str)
    with pytest.raises(AttributeError, match=r"super\(\).__init__\(name\)"):
        _Forgetful().settings  # noqa: B018 - the look-up is what is tested
    assert _Own().config == {"region": "north"}


@pytest.mark.parametrize("name", ["name", "config", "bootstrap_servers", "on_error", "key"])
def test_what_an_app_was_made_with_does_not_change(name: str) -> None:
    app = sl.App("made")
    with pytest.raises(WrongTypeError, match=f"^{name}= of an App is given when it is made"):
        setattr(app, name, "other")
    assert app.name == "made"
    with pytest.raises(WrongTypeError, match=r"^name= of an App"):
        _Own().name = "other"


def test_two_apps_of_one_name_are_told_apart() -> None:
    one, other = sl.App("cells"), sl.App("cells")
    lines = one.stream("in", key=str, value=str)
    with pytest.raises(TopologyError, match=r"two Apps named 'cells'; make both by one App \(in a"):
        lines.merge(other.stream("in", key=str, value=str))


@pytest.mark.parametrize("limit", ["count", "timeout", "wait_for_broker"])
def test_limits_below_zero_are_refused_before_anything_is_waited_for(limit: str) -> None:
    app = sl.App("limits", bootstrap_servers="127.0.0.1:1")
    app.stream("in", key=str, value=str).to("out")
    with pytest.raises(WrongValueError, match=rf"^run\({limit}=-1\): expected 0 or more"):
        app.run(**{limit: -1})
    assert app.status.state == "CREATED"
