"""Names that are no operators: what is said of them, and that the pages of them are true."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import streamlet as sl
from streamlet.absent import snake_case
from streamlet.absent_classes import ABSENT_HERE
from streamlet.absent_names import ABSENT
from streamlet.app import App, load_app
from streamlet.config import Settings
from streamlet.dsl.branched import BranchedKStream
from streamlet.dsl.cogrouped import CogroupedKStream, WindowedCogroupedKStream
from streamlet.dsl.graph.materialized import Materialized
from streamlet.dsl.grouped import KGroupedStream
from streamlet.dsl.stream import KStream
from streamlet.dsl.table import KTable
from streamlet.dsl.windowed import WindowedKStream
from streamlet.dsl.windowing.definitions import tumbling
from streamlet.serdes import Windowed
from streamlet.testing.driver import TopologyTestDriver

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGES = [DOCS / "coming-from.md", DOCS / "coming-from-quix-faust.md"]
PAGE = "\n".join(page.read_text("utf-8") for page in PAGES)
NOT_YET = "not in streamlet yet"
CLASSES = {
    one.__name__: one
    for one in (
        App,
        KStream,
        BranchedKStream,
        KTable,
        KGroupedStream,
        CogroupedKStream,
        WindowedKStream,
        WindowedCogroupedKStream,
        Materialized,
        TopologyTestDriver,
    )
}


def owners() -> dict[str, Any]:
    app = App("a")
    stream = app.stream("in", key=str, value=int)
    grouped = stream.group_by_key()
    return {
        "App": app,
        "KStream": stream,
        "KTable": grouped.count(),
        "KGroupedStream": grouped,
        "CogroupedKStream": grouped.cogroup(lambda k, v, x: x),
        "WindowedKStream": grouped.windowed_by(tumbling("1m")),
    }


def rows() -> list[tuple[set[str], str]]:
    """Each row of the pages: the names in its first cell, in snake_case, and its second cell."""
    cells = re.findall(r"^\| (.*?) ?\| (.*) \|$", PAGE, re.M)
    return [({snake_case(n) for n in re.findall(r"`(\w+)", one)}, two) for one, two in cells]


@pytest.mark.parametrize("kind", ABSENT)
def test_no_name_of_the_table_is_there(kind: str) -> None:
    there = set(dir(CLASSES[kind]))
    assert [name for name in ABSENT[kind] if name in there] == []


@pytest.mark.parametrize("kind", ABSENT)
def test_each_name_of_the_table_raises_its_sentence(kind: str) -> None:
    owner = owners()[kind]
    for name, sentence in ABSENT[kind].items():
        with pytest.raises(AttributeError) as raised:
            getattr(owner, name)
        assert str(raised.value) == f"{kind} has no {name}: {sentence}"
        assert not hasattr(owner, name)


def test_names_that_the_package_does_not_have_say_what_to_do() -> None:
    for name, sentence in ABSENT_HERE.items():
        with pytest.raises(AttributeError) as raised:
            getattr(sl, name)
        assert str(raised.value) == f"streamlet has no {name}: {sentence}"
    theirs = {"Topic", "Table", "Producer", "StringSerde", "StateStore", "TumblingWindow", "run"}
    assert theirs <= ABSENT_HERE.keys()
    for name, meant in (("Kstream", "KStream"), ("materialised", "Materialized")):
        with pytest.raises(
            AttributeError, match=rf"no attribute '{name}'; did you mean {meant}\?$"
        ):
            getattr(sl, name)
    with pytest.raises(AttributeError, match=r"^module 'streamlet' has no attribute 'nonsense'$"):
        sl.nonsense  # noqa: B018 - the look-up is what is tested
    named = re.findall(r"streamlet\.(\w+)\(|(\w+)\(\)", " ".join(ABSENT_HERE.values()))
    functions = {first or second for first, second in named} - {"table", "stream", "global_table"}
    assert functions - {"suppress", "process", "run"} <= set(sl.__all__)


def test_the_package_lists_its_names_only() -> None:
    assert [name for name in dir(sl) if not name.startswith("__")] == sorted(sl.__all__)


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("KStream", "groupByKey", "KStream has no groupByKey: its name is group_by_key"),
        ("KTable", "mapValues", "KTable has no mapValues: its name is map_values"),
        ("App", "setStateListener", "App has no setStateListener: its name is set_state_listener"),
        (
            "KGroupedStream",
            "windowedBy",
            "KGroupedStream has no windowedBy: its name is windowed_by",
        ),
        ("KTable", "outerJoin", "KTable has no outerJoin: its name is outer_join"),
        ("App", "GlobalTable", "App has no GlobalTable: its name is global_table"),
    ],
)
def test_a_camel_case_name_is_understood(kind: str, name: str, message: str) -> None:
    with pytest.raises(AttributeError, match=f"^{re.escape(message)}"):
        getattr(owners()[kind], name)


def test_other_names_are_answered_with_those_that_there_are() -> None:
    for kind, owner in owners().items():
        with pytest.raises(AttributeError, match=f"^{kind} has no nonsense: it has ") as raised:
            owner.nonsense  # noqa: B018 - the look-up is what is tested
        assert (raised.value.name, raised.value.obj) == ("nonsense", None)


def test_a_subclass_names_the_class_that_is_documented() -> None:
    class Flights(App):
        @property
        def broken(self) -> str:
            return self.elsewhere  # type: ignore[attr-defined, no-any-return]

    app = Flights("flights")
    with pytest.raises(AttributeError, match=r"^App has no agent: "):
        app.agent  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'elsewhere'"):
        app.broken  # noqa: B018 - a property's own error is not hidden


def test_copies_and_pickles_are_made_as_ever() -> None:
    stream = owners()["KStream"]
    assert vars(copy.copy(stream)) == vars(stream)
    bare = KStream.__new__(KStream)
    assert isinstance(pickle.loads(pickle.dumps(bare)), KStream)


def test_the_pages_list_each_name_of_the_table_and_say_what_is_not_there_yet() -> None:
    wrong = []
    for kind, table in ABSENT.items():
        for name, sentence in table.items():
            cells = [cell for names, cell in rows() if snake_case(name) in names]
            said = any(cell.startswith("not yet") for cell in cells)
            if not cells or (NOT_YET in sentence and not said):
                wrong.append(f"{kind}.{name}")
    assert wrong == []


def test_what_a_page_calls_not_yet_there_is_in_the_table() -> None:
    missing = {
        snake_case(name) for table in ABSENT.values() for name, s in table.items() if NOT_YET in s
    }
    not_yet = [names for names, cell in rows() if cell.startswith("not yet")]
    assert len(not_yet) >= 3
    assert [names for names in not_yet if not names & missing] == []


def test_each_signature_on_the_pages_is_that_of_the_code() -> None:
    found = re.findall(rf"`({'|'.join(CLASSES)})(?:\.(\w+))?(\([^`]*\))`", PAGE)
    wrong = [
        f"{kind}.{method}{given}"
        for kind, method, given in found
        if signature(getattr(CLASSES[kind], method or "__init__")) != given
    ]
    assert len(found) > 50
    assert wrong == []


def test_each_operator_has_its_signature_on_a_page() -> None:
    """``App`` also has commands, which operations.md describes."""
    named = set(re.findall(rf"`({'|'.join(CLASSES)})\.(\w+)\(", PAGE))
    public = {
        (one, name)
        for one in CLASSES.keys() - {"App", "Materialized"}
        for name, _ in inspect.getmembers(CLASSES[one], inspect.isfunction)
        if not name.startswith("_")
    }
    assert public - named == set()


def test_each_setting_that_the_page_translates_to_exists() -> None:
    section = PAGE.partition("\n## Settings\n")[2].partition("\n## ")[0]
    ours = [cell for line in section.splitlines() for cell in re.findall(r"\|.*?\|(.*)\|", line)]
    keys = re.findall(r"`([a-z]+(?:\.[a-z]+)+)`", " ".join(ours))
    assert len(keys) > 5
    settings = Settings.load({})
    assert [key for key in keys if not hasattr(settings, key.replace(".", "_"))] == []


def test_the_window_of_the_page_counts_per_key_and_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = PAGE.partition("```python\n")[2].partition("```")[0]
    (tmp_path / "clicks_of_the_page.py").write_text(code, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    app = load_app("clicks_of_the_page:app")
    make = import_module("clicks_of_the_page").Click
    with TopologyTestDriver(app) as driver:
        clicks = [("ann", 60_000), ("ann", 119_999), ("ann", 120_000), ("bob", 60_001)]
        driver.pipe_inputs("clicks", [(user, make("page", at)) for user, at in clicks])
        counts = [(r.key, r.value) for r in driver.read_output("clicks-per-minute")]
    assert counts == [
        (Windowed("ann", 60_000, 120_000), 1),
        (Windowed("ann", 60_000, 120_000), 2),
        (Windowed("ann", 120_000, 180_000), 1),
        (Windowed("bob", 60_000, 120_000), 1),
    ]


def signature(function: Any) -> str:
    """As the page writes it: without ``self`` and without types."""
    known = inspect.signature(function)
    parameters = [p.replace(annotation=p.empty) for p in list(known.parameters.values())[1:]]
    return str(known.replace(parameters=parameters, return_annotation=known.empty))
