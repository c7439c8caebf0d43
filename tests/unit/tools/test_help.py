"""What ``--help`` shows in a terminal of 80 columns: whole words, and every option's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import typer
from typer.testing import CliRunner

from streamlet.config import Settings
from streamlet.tools.main import build

ROOT = typer.main.get_command(build())


def commands() -> Iterator[tuple[str, ...]]:
    for name, found in ROOT.commands.items():  # type: ignore[attr-defined]
        for inner in getattr(found, "commands", {"": None}):
            yield (name, inner) if inner else (name,)


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_help_cuts_nothing_off_in_80_columns(words: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(build(), [*words, "--help"], env={"COLUMNS": "80"}).stdout
    seen = set(shown.replace("│", " ").split())
    found = ROOT
    for word in words:
        found = found.commands[word]  # type: ignore[attr-defined]
    wanted = set((found.help or "").split())
    for parameter in found.params:
        wanted |= {parameter.metavar}
        wanted |= set(parameter.opts if parameter.param_type_name == "option" else ())
        wanted |= set((getattr(parameter, "help", None) or "").replace("\\[", "[").split())
    assert wanted - seen <= {None}
    assert not {word for word in seen if word.endswith("…")} - wanted
    assert max(map(len, shown.splitlines())) <= 80


def test_help_has_no_tables_where_they_would_cut_names_of_options_off() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "streamlet", "state", "clean", "--help"],
        env={**os.environ, "COLUMNS": "20"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    seen = set(shown.split())
    for parameter in ROOT.commands["state"].commands["clean"].params:  # type: ignore[attr-defined]
        if parameter.param_type_name == "option":
            assert seen & {parameter.opts[0], f"{parameter.opts[0]},"}
    assert "[default:" in seen
    assert "│" not in shown


def test_help_has_lines_that_fill_the_width() -> None:
    """A docstring's own line breaks are not those of the terminal."""
    shown = CliRunner().invoke(build(), ["run", "--help"], env={"COLUMNS": "80"}).stdout
    lines = [line.strip() for line in shown.splitlines()]
    assert "share of the" not in lines
    assert "share of the tasks. Workers that fail are started again and find their state" in lines


def test_the_command_line_is_built_without_what_commands_need_later() -> None:
    """All of the package would take four times as long, for help, an error or a first line."""
    code = "import sys; from streamlet.tools.main import build; build(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {*done.stdout.split()}
    rooms = {".".join(name.split(".")[:2]) for name in loaded if name.startswith("streamlet.")}
    assert "streamlet.tools" in rooms
    assert not {f"streamlet.{room}" for room in ("app", "processing", "spark", "state")} & rooms
    assert not {"confluent_kafka", "fastavro", "kafka", "pyspark", "rocksdict"} & loaded


def options() -> Iterator[tuple[str, str]]:
    """Each option, and the variable that help promises for it."""
    every = {"bootstrap_servers", "config", "set_", "json", "log_level", "log_json"}
    for words in commands():
        found = ROOT
        for word in words:
            found = found.commands[word]  # type: ignore[attr-defined]
        for parameter in found.params:
            if parameter.param_type_name != "option" or parameter.name == "help":
                continue
            option = max(parameter.opts, key=len)
            where = () if parameter.name in every else words
            variable = "_".join(("streamlet", *where, option.removeprefix("--")))
            yield f"{' '.join(words)} {option}", variable.replace("-", "_").upper()


@pytest.mark.parametrize(("option", "variable"), list(options()))
def test_an_option_has_the_variable_that_help_promises(
    option: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    *words, name = option.split()
    found, context = ROOT, typer.Context(ROOT, auto_envvar_prefix="STREAMLET")
    for word in words:
        found = found.commands[word]  # type: ignore[attr-defined]
        context = typer.Context(found, parent=context, info_name=word)
    parameter = next(one for one in found.params if name in one.opts)
    monkeypatch.setenv(variable, "seen")
    assert parameter.resolve_envvar_value(context) == "seen"
    Settings.load(environ={variable: "localhost:1"})  # none is taken for a setting misspelt


def test_help_says_how_variables_are_called() -> None:
    shown = (
        CliRunner().invoke(build(), ["topics", "create", "--help"], env={"COLUMNS": "80"}).stdout
    )
    assert "STREAMLET_TOPICS_CREATE_SOME_NAME for --some-name" in " ".join(shown.split())
