"""What does not run on Spark is refused with the way out, and stands in docs/spark.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

import streamlet as sl
from streamlet.config import Settings
from streamlet.errors import ConfigError, TopologyError
from streamlet.processing.policy import ErrorPolicy
from streamlet.spark.plan.plan import plan
from streamlet.spark.plan.refusals import REFUSALS, refuse

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "spark.md").read_text("utf-8")

#: Functions that refuse something else than an application: arguments of a call, as they say
#: themselves, the session, or a checkpoint.
OTHERS = {"prepare", "_folds", "_check_state_store"}


@attrs.define
class Program:
    """An application as it is looked at, and the settings of the run."""

    app: sl.App = attrs.field(factory=lambda: sl.App("a"))
    policy: ErrorPolicy = attrs.field(factory=lambda: ErrorPolicy.of("fail"))
    run: Settings = attrs.field(factory=Settings.load)

    @property
    def settings(self) -> Settings:
        """The program's own."""
        return Settings.load()

    @property
    def stream(self) -> sl.KStream[str, str]:
        """A stream of the application's."""
        return self.app.stream("in", key=str, value=str)

    def refused(self) -> None:
        """Look at it as a start on Spark does."""
        topology = self.app.topology()
        refuse(self, topology, self.run)
        plan("a:app", topology, dict.fromkeys(topology.source_topics, 1))


class Scheduled(sl.Processor[str, str, str, str]):
    def init(self, context: sl.ProcessorContext[str, str]) -> None:
        context.schedule("1s", lambda now: None)

    def process(self, record: sl.Record[str, str]) -> None:
        pass


def circle(program: Program) -> None:
    left = program.app.table("in", key=str, value=str, store="left")
    right = program.app.table("right", key=str, value=str, store="right")
    first = left.join(right, lambda a, b: a, foreign_key=lambda a: a, value=str)
    first.join(left, lambda a, b: a, value=str).to_stream().to("out")


def with_settings(**settings: str) -> Callable[[Program], None]:
    def change(program: Program) -> None:
        program.stream.to("out")
        program.run = Settings.load({name.replace("_", "."): v for name, v in settings.items()})

    return change


def uncaught(program: Program) -> None:
    program.stream.to("out")
    program.policy = ErrorPolicy.of("skip", "replace_thread")


def final(stream: sl.KStream[str, str]) -> Any:
    windows = stream.group_by_key().windowed_by(
        sl.tumbling(20), emit="final", close_idle_after="1m"
    )
    return windows.count(store="n")


PROGRAMS: dict[str, Callable[[Program], Any]] = {
    "globals": lambda one: one.stream.join(
        one.app.global_table("all", key=str, value=str), lambda a, b: a, on=lambda k, v: k
    ).to("out"),
    "patterns": lambda one: one.app.stream(re.compile("in-.*"), key=str, value=str).to("out"),
    "partitioners": lambda one: one.stream.repartition(
        name="spread", partitioner=lambda key, value, count: 0
    ).to("out"),
    "punctuators": lambda one: one.stream.process(Scheduled).to("out", key=str, value=str),
    "clock": lambda one: final(one.stream),
    "contexts": lambda one: one.stream.peek(sl.with_context(lambda k, v, c: None)).to("out"),
    "uncaught": uncaught,
    "optimization": with_settings(topology_optimization="all"),
    "guarantee": with_settings(processing_guarantee="exactly_once"),
    "reset": with_settings(auto_offset_reset="none"),
    "circles": circle,
}


@pytest.mark.parametrize("kind", sorted(REFUSALS))
def test_each_is_refused_and_the_message_names_the_way_out(kind: str) -> None:
    program = Program()
    PROGRAMS[kind](program)
    with pytest.raises((TopologyError, ConfigError)) as refused:
        program.refused()
    found = REFUSALS[kind]
    assert f"{found.what}" in str(refused.value)
    assert str(refused.value).endswith(f"do not run on Spark, {found.why}; {found.instead}")


def test_the_page_has_a_row_for_each() -> None:
    section = PAGE.partition("## What is refused\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    table = rows[: len(REFUSALS)]
    assert table == [
        f"| {one.what}: {one.words} | {one.why} | {one.instead} |" for one in REFUSALS.values()
    ]


def test_nothing_else_is_refused_where_an_application_is_looked_at() -> None:
    """A new check makes its message of the list, so that the page has it."""
    found = set()
    for file in sorted((ROOT / "streamlet" / "spark" / "plan").glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if not isinstance(node, ast.FunctionDef):
                continue
            for one in ast.walk(node):
                raised = isinstance(one, ast.Raise) and ast.unparse(one)
                wrong = raised and re.search(r"TopologyError\(|ConfigError\(", raised)
                listed = "REFUSALS" in ast.unparse(node) or "_circle" in ast.unparse(node)
                if wrong and not listed:
                    found.add(node.name)
    assert found == OTHERS
