"""The application: its settings, and finding it by ``module:attribute``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import streamlet as sl
from streamlet.app import App, load_app
from streamlet.errors import AppNotFoundError, ConfigError, TopologyError
from streamlet.hosting.run import OutputValue


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module in the current folder with an application and other things."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    name = "app_of_test"
    (tmp_path / f"{name}.py").write_text(
        "from streamlet.app import App\n"
        "flights = App('flights')\n"
        "class inside:\n    app = App('inside')\n"
        "number = 3\n"
    )
    (tmp_path / "without_app_of_test.py").write_text("number = 3\n")
    (tmp_path / "broken_of_test.py").write_text("import not_there_of_test\n")
    (tmp_path / "failing_of_test.py").write_text("1 / 0\n")
    (tmp_path / "exiting_of_test.py").write_text("import sys\nsys.exit(0)\n")
    (tmp_path / "misspelt_app.py").write_text("def f(:\n")
    others = ("without_app_of_test", "broken_of_test", "failing_of_test", "exiting_of_test")
    for loaded in (name, "misspelt_app", *others):
        monkeypatch.delitem(sys.modules, loaded, raising=False)
    return name


def test_an_application_is_found_in_a_module_of_the_current_folder(module: str) -> None:
    assert load_app(f"{module}:flights").name == "flights"
    assert load_app(f"{module}:inside.app").name == "inside"


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("flights", "expected module:attribute"),
        ("flights.py", "expected module:attribute, for example flights:app$"),
        ("./flights.py:main", "expected module:attribute, for example flights:main$"),
        ("src/flights.py:app", "for example src.flights:app$"),
        ("/srv/my-jobs/flights.py:app", "for example flights:app, in the folder of that file$"),
        ("my-jobs.py", "expected module:attribute, for example flights:app$"),
        (5, "5: expected a text, for example"),
        ("app_of_test:", "expected module:attribute"),
        ("nowhere_of_test:app", "there is no module 'nowhere_of_test' in"),
        ("app_of_test.deeper:app", "cannot be imported|there is no module"),
        ("app_of_test:app", "has no 'app'; it has app_of_test:flights"),
        ("app_of_test:number", "is of type int, not an App; it has app_of_test:flights"),
        ("without_app_of_test:app", "there is no App in without_app_of_test"),
        (
            "broken_of_test:app",
            r"cannot be imported: .*broken_of_test.py:1 in .*No module named 'not_there_of_test'",
        ),
        (
            "failing_of_test:app",
            r"cannot be imported: .*failing_of_test.py:1 in <module>, `.*`: ZeroDivisionError: ",
        ),
        (
            "misspelt_app:app",
            r"cannot be imported: SyntaxError: invalid syntax \(misspelt_app.py, line 1\)",
        ),
        ("exiting_of_test:app", r"cannot be imported: .*exiting_of_test.py:2 in .*: SystemExit: 0"),
    ],
)
@pytest.mark.usefixtures("module")
def test_what_leads_to_no_application_says_where_it_ended(reference: Any, message: str) -> None:
    with pytest.raises(AppNotFoundError, match=message):
        load_app(reference)


@pytest.mark.usefixtures("module")
def test_an_application_that_cannot_be_is_not_taken_for_a_missing_one(tmp_path: Path) -> None:
    """A mistake in the program keeps its own message and exit code."""
    (tmp_path / "unset_of_test.py").write_text(
        "import streamlet as sl\napp = sl.App('a', config={'comit.interval.ms': 1})\n"
    )
    with pytest.raises(ConfigError, match=r"did you mean commit.interval.ms") as refused:
        load_app("unset_of_test:app")
    assert refused.value.exit_code == 2


def test_all_wrong_settings_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as refused:
        App("a", config={"num.standby.replica": 1, "commit.interval.ms": "soon"})
    assert len(refused.value.problems) == 2
    assert "num.standby.replicas" in str(refused.value)


def test_who_runs_the_application_outranks_who_wrote_it() -> None:
    app = App("a", bootstrap_servers="one:1", config={"num.standby.replicas": 1})
    assert app.settings.bootstrap_servers == "one:1"
    settings = app.load_settings(overrides=["bootstrap.servers=two:2"])
    assert (settings.bootstrap_servers, settings.num_standby_replicas) == ("two:2", 1)


@pytest.mark.parametrize("name", ["", "a b", "..", "ä", "x" * 151, None, b"a"])
def test_a_name_that_cannot_begin_a_topic_is_refused(name: Any) -> None:
    with pytest.raises(ConfigError, match="App name"):
        App(name)


@pytest.mark.parametrize("wrong", [{"config": "a=b"}, {"tracer_provider": True}])
def test_an_argument_of_another_type_is_refused_by_its_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(wrong))}: expected"):
        App("a", **wrong)


def test_an_unknown_error_policy_is_refused() -> None:
    with pytest.raises(ConfigError, match="on_error"):
        App("a", on_error="ignore")  # type: ignore[arg-type]


def test_a_stream_needs_topics_each_once() -> None:
    app = App("a")
    for topics in ([], ["in", "in"]):
        with pytest.raises(TopologyError, match="each once"):
            app.stream(topics, key=str, value=str)


def test_the_package_offers_what_it_lists_and_nothing_else() -> None:
    for name in sl.__all__:
        assert getattr(sl, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Ap'"):
        _ = sl.Ap
    assert set(sl.__all__) <= set(dir(sl))


def test_closing_an_application_that_does_not_run_does_nothing() -> None:
    with App("a") as app:
        app.close()


def test_an_assignor_that_is_no_function_is_refused() -> None:
    with pytest.raises(ConfigError, match="assignor: expected a function from GroupState to Plan"):
        App("app", assignor="canary")  # type: ignore[arg-type]


async def plan_later(state: object) -> None:
    """As an assignor it would only ever return a coroutine."""


def test_an_async_assignor_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"assignor: .*plan_later.* is async"):
        App("app", assignor=plan_later)  # type: ignore[arg-type]


def test_results_are_rows_of_a_data_frame() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame([OutputValue("out", "ann", 2, 7), OutputValue("out", "bob", 1, 9)])
    assert [*frame.columns] == ["topic", "key", "value", "timestamp"]
    assert [*frame.value] == [2, 1]
