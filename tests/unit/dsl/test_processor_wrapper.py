"""``ProcessorWrapper``: what a hook around each node meets, may do, and makes of errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import streamlet as sl
from streamlet.config import Settings
from streamlet.errors import ConfigError, ProcessingError, StreamletError
from streamlet.testing.driver import TopologyTestDriver
from streamlet.topology.together import together_of

Batch = sl.RecordBatch[Any, Any]
Process = Callable[[], Batch]


class Seen(sl.ProcessorWrapper):
    """Notes what came to each node, what came of it, and the errors that it met."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, list[Any], Any]] = []

    def process_batch(self, name: str, batch: Batch, process: Process) -> None:
        results: Any = None
        try:
            results = process().values
        except ValueError as error:
            results = str(error)
        finally:
            self.lines.append((name, batch.values, results))


class Around:
    """A processor around another one, which counts in a store of that."""

    def __init__(self, name: str, wrapped: Any) -> None:
        self.name, self.wrapped = name, wrapped

    def init(self, context: sl.ProcessorContext[Any, Any]) -> None:
        self.context = context
        self.wrapped.init(context)

    def process(self, record: sl.Record[str, Any]) -> Any:
        calls = self.context.store("calls", sl.KeyValueStore[str, int])
        calls.put(self.name, (calls.get(self.name) or 0) + 1)
        if record.value == 0:
            raise ValueError("refused")
        return self.wrapped.process(record)


class Processors(sl.ProcessorWrapper):
    def wrap_processor(self, name: str, processor: Any) -> Any:
        return Around(name, processor)


def written(
    app: sl.App, values: list[int], topic: str = "out"
) -> tuple[list[Any], TopologyTestDriver]:
    """The values that records of these, piped as one batch, lead to."""
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("k", value) for value in values])
        return [record.value for record in driver.read_output(topic)], driver


def inverse(number: int) -> int:
    if number == 0:
        raise ValueError("no inverse")
    return 60 // number


def program(wrapper: Any, **options: Any) -> sl.App:
    """Operators of several kinds between two topics."""
    app = sl.App("a", processor_wrapper=wrapper, **options)
    numbers = app.stream("in", key=str, value=int)
    numbers.filter(lambda k, v: v != 1, name="some").map_values(
        inverse, value=int, name="inverse"
    ).to("out")
    return app


def test_operators_are_met_by_name_with_their_records_and_results() -> None:
    seen = Seen()
    assert written(program(seen), [1, 2, 3])[0] == written(program(None), [1, 2, 3])[0] == [30, 20]
    assert seen.lines == [("some", [1, 2, 3], [2, 3]), ("inverse", [2, 3], [30, 20])]


def test_tables_are_met_and_so_are_records_that_wait_for_others() -> None:
    seen = Seen()
    app = sl.App("a", processor_wrapper=seen)
    prices = app.global_table("prices", key=str, value=int, name="prices")
    orders = app.stream("in", key=str, value=int)
    orders.join(prices, lambda a, b: a * b, on=lambda k, v: k, value=int, name="priced").to("out")
    orders.group_by_key().count(store="n", name="counted")
    orders.map_batches(lambda b: b.values, value=int, max_wait="1h", name="whole").to("same")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("prices", [("a", 5), ("b", 7)])
        driver.pipe_inputs("in", [("a", 1), ("b", 2)])
        assert [record.value for record in driver.read_output("out")] == [5, 14]
        assert [record.value for record in driver.read_output("same")] == [1, 2]
    assert {name: (given, made) for name, given, made in seen.lines} == {
        "prices": ([5, 7], [5, 7]),
        "priced": ([1, 2], [5, 14]),
        "counted": ([1, 2], [1, 1]),
        "whole": ([1, 2], [1, 2]),
    }


def test_an_operator_that_gives_parts_is_met_once_for_each() -> None:
    def spread(record: sl.Record[str, int], state: dict[str, Any]) -> Iterator[int]:
        yield from range(record.value)

    seen = Seen()
    app = sl.App("a", processor_wrapper=seen)
    numbers = app.stream("in", key=str, value=int)
    numbers.process_values(spread, value=int, name="spread").to("out")
    assert written(app, [1_500, 1_000, 2])[0] == [*range(1_500), *range(1_000), 0, 1]
    assert [given for _, given, _ in seen.lines if given] == [[1_500, 1_000, 2]]
    assert len(seen.lines) > 2
    assert sum(len(made) for _, _, made in seen.lines) == 2_502


def test_processors_are_wrapped_with_their_stores_and_their_errors() -> None:
    app = sl.App("a", processor_wrapper=Processors, on_error="skip")
    calls = sl.key_value_store("calls", key=str, value=int)
    numbers = app.stream("in", key=str, value=int)
    doubled = numbers.process_values(
        lambda record: record.value * 2, stores=[calls], value=int, name="doubled"
    )
    doubled.process(lambda record: record, stores=["calls"], key=str, value=int, name="same").to(
        "out"
    )
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("k", 1), ("k", 0), ("k", 3)])
        assert [record.value for record in driver.read_output("out")] == [2, 6]
        assert dict(driver.store("calls").all()) == {"doubled": 3, "same": 2}


def test_the_policy_decides_about_a_function_that_failed_whatever_the_hook_does() -> None:
    """``Seen`` meets the error of the function, and keeps it to itself."""
    seen = Seen()
    assert written(program(seen, on_error="skip"), [2, 0, 3])[0] == [30, 20]
    assert ("inverse", [2, 0, 3], "no inverse") in seen.lines
    with pytest.raises(ProcessingError, match=r"no inverse.*operator inverse"):
        written(program(Seen()), [2, 0, 3])


class Refusing(sl.ProcessorWrapper):
    """Refuses a value at a node, before the operator has it or behind that."""

    def __init__(self, value: int, *, behind: bool = False, times: int = 1_000) -> None:
        self.value, self.behind, self.left = value, behind, times

    def process_batch(self, name: str, batch: Batch, process: Process) -> None:
        if self.behind:
            process()
        if name == "inverse" and self.value in batch.values and self.left:
            self.left -= 1
            raise ValueError("refused")
        if not self.behind:
            process()


def test_records_that_the_hook_refuses_fail_alone() -> None:
    app = program(Refusing(3), on_error=("dead_letter", "dlq"))
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("k", value) for value in (2, 3, 0, 4, 3)])
        assert [record.value for record in driver.read_output("out")] == [30, 15]
        assert len(driver.read_output("dlq")) == 3  # those refused, and that without an inverse
    with pytest.raises(ProcessingError, match=r"refused.*operator inverse"):
        written(program(Refusing(3)), [2, 3])


def test_a_record_that_the_hook_refuses_is_tried_again() -> None:
    """Twice refused: with its batch, and by itself."""
    assert written(program(Refusing(3, times=2), on_error=sl.Retry(2)), [2, 3, 4])[0] == [
        30,
        20,
        15,
    ]


def test_what_fails_behind_the_operator_is_the_last_record_whose_result_is_sent() -> None:
    app = program(Refusing(3, behind=True), on_error=("dead_letter", "dlq"))
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("k", value) for value in (2, 3, 4)])
        assert [record.value for record in driver.read_output("out")] == [30, 20, 15]
        assert len(driver.read_output("dlq")) == 1


@pytest.mark.parametrize(("times", "said"), [(0, "not at all"), (2, "twice")])
def test_a_hook_calls_process_once(times: int, said: str) -> None:
    class Often(sl.ProcessorWrapper):
        def process_batch(self, name: str, batch: Batch, process: Process) -> None:
            for _ in range(times):
                process()

    with pytest.raises(StreamletError, match=rf"some: process_batch\(\) of Often .* {said}: exp"):
        written(program(Often, on_error="skip"), [2])


def test_what_wraps_a_processor_is_one() -> None:
    class Nothing(sl.ProcessorWrapper):
        def wrap_processor(self, name: str, processor: Any) -> Any:
            return None

    app = sl.App("a", processor_wrapper=Nothing)
    app.stream("in", key=str, value=int).process_values(lambda r: 1, name="one").to("out")
    with pytest.raises(StreamletError, match=r"one: wrap_processor\(\) of Nothing returned None"):
        written(app, [1])


def test_a_join_of_streams_meets_each_record_once_since_it_takes_them_in_order() -> None:
    def joined(wrapper: Any) -> Any:
        app = sl.App("a", processor_wrapper=wrapper)
        left, right = (app.stream(name, key=str, value=int) for name in ("left", "right"))
        windows = sl.join_windows("1m", grace="0s")
        left.left_join(right, lambda a, b: a, within=windows, value=int).to("out")
        (part,) = app.topology().subtopologies
        return together_of(part)

    assert joined(None) is not None
    assert joined(Seen()) is None


@pytest.mark.parametrize("given", [object(), int, "shop:Lines"])
def test_something_else_is_no_wrapper(given: Any) -> None:
    with pytest.raises(ConfigError, match="processor_wrapper: expected a ProcessorWrapper"):
        sl.App("a", processor_wrapper=given)


def test_the_setting_names_one_and_outranks_that_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "named_hooks.py").write_text(
        "import streamlet as sl\n"
        "class Lines(sl.ProcessorWrapper):\n"
        "    names = []\n"
        "    def process_batch(self, name, batch, process):\n"
        "        self.names.append(name)\n"
        "        process()\n"
        "made = Lines()\n"
    )
    own = Seen()
    written(program(own, config={"processor.wrapper": "named_hooks:Lines"}), [2])
    written(program(own, config={"processor.wrapper": "named_hooks:made"}), [2])
    import named_hooks  # type: ignore[import-not-found]

    assert (named_hooks.Lines.names, own.lines) == (["some", "inverse"] * 2, [])
    for name, said in {
        "named_hooks:absent": "has no 'absent'; it has named_hooks:Lines, named_hooks:made$",
        "named_hooks:sl": "is of type module, not a ProcessorWrapper",
        "no_such_hooks:Lines": "^processor.wrapper: there is no module 'no_such_hooks'",
    }.items():
        app = program(None, config={"processor.wrapper": name})
        with pytest.raises(ConfigError, match=said):
            app.topology()
    with pytest.raises(ConfigError, match=r"processor.wrapper.*expected module:attribute"):
        Settings.load({"processor.wrapper": "com.acme.Wrapper"})
