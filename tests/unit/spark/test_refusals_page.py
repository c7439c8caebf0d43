"""What does not run on Spark is refused with the way out, and stands in docs/spark-refusals.md."""

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
PAGE = (ROOT / "docs" / "spark-refusals.md").read_text("utf-8")

#: Functions that refuse something else than an application: arguments of a call, as they say
#: themselves, the session, or a checkpoint.
OTHERS = {"prepare", "_folds", "_check_state_store"}


@attrs.define
class Program:
    """An application as it is looked at, and the settings of the run."""

    app: sl.App = attrs.field(factory=lambda: sl.App("a"))
    policy: ErrorPolicy = attrs.field(factory=lambda: ErrorPolicy.of("fail"))
    run: Settings = attrs.field(factory=Settings.load)
    tracer_provider: object = None
    processor_wrapper: object = None

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


def tokens(program: Program) -> None:
    program.stream.to("out")
    program.run = Settings.load({"oauth_cb": lambda _: ("token", 1)})


def traced(program: Program) -> None:
    program.stream.to("out")
    program.tracer_provider = object()


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
    "durations": lambda one: one.app.stream(
        "late", key=str, value=str, reset=sl.by_duration("7d")
    ).to("out"),
    "tokens": tokens,
    "partitioners": lambda one: one.stream.repartition(
        name="spread", partitioner=lambda key, value, count: 0
    ).to("out"),
    "punctuators": lambda one: one.stream.process(Scheduled).to("out", key=str, value=str),
    "clock": lambda one: final(one.stream),
    "contexts": lambda one: one.stream.peek(sl.with_context(lambda k, v, c: None)).to("out"),
    "headed": lambda one: one.stream.group_by_key().count(store=sl.Materialized("n", headers=True)),
    "uncaught": uncaught,
    "letters": with_settings(errors_dead_letter_queue_topic_name="dead"),
    "optimization": with_settings(topology_optimization="all"),
    "guarantee": with_settings(processing_guarantee="exactly_once"),
    "reset": with_settings(auto_offset_reset="none"),
    "wrappers": with_settings(processor_wrapper="shop:Lines"),
    "http": with_settings(http_port="0"),
    "tracing": traced,
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


def test_a_wrapper_of_the_program_is_refused_as_that_of_a_setting() -> None:
    program = Program(processor_wrapper=sl.ProcessorWrapper())
    program.stream.to("out")
    with pytest.raises(ConfigError, match=r"^hooks around nodes \(App\(processor_wrapper=\)\) do"):
        program.refused()


def test_settings_of_repartition_topics_are_ignored_by_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    program = Program()
    program.stream.group_by_key().count(store="n")
    program.refused()
    assert "no effect" not in caplog.text
    program.run = Settings.load({"repartition.exact": "false"})
    program.refused()
    assert "repartition.exact: no effect on Spark, which has no repartition topics" in caplog.text
    program.run = Settings.load({"repartition.commit.interval.ms": "20"})
    program.refused()
    assert "repartition.commit.interval.ms: no effect on Spark" in caplog.text


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


#: Each function that refuses something, and words of its row in the page's second table. Those
#: without words find damage, or what was refused before.
ROWS = {
    "backfill.prepared": "a topic that does not exist",
    "backfill._check_files": "files in place of a table",
    "backfill_files.last_time": "files without times or records",
    "backfill_files._read": "that cannot be read",
    "checkpoint.read": "or one that is damaged",
    "checkpoint.compare": "of other partition counts",
    "gateway.start_jvm": "no Java 17",
    "gateway.running_settings": "settings that come too late",
    "java.java_home": "no Java 17",
    "own_modules.zipped": "modules that are too large to send",
    "session.require_pyspark": "no PySpark",
    "shipping.ship": "executors that lack Python",
    "submit.add_to_path": "`--py-files` that are none",
    "submit.check": "`--deploy-mode cluster` on a standalone cluster",
    "identity.compare": "ends before it",
    "identity.check_ids": "a topic that was made again",
    "python_kafka.partitions": "has lost records that it goes on at",
    "topics.counts_by_client": "a topic that does not exist",
    "topics.require_classic": "a session of Spark Connect",
    "lease._held_by": "a checkpoint that another query has",
    "plan.check": "given more partitions while a query runs",
    "plan.check_counts": "given more partitions while a query runs",
    "prepare.prepare": "partitions that cannot be known",
    "prepare._folds": "where Spark SQL would not be equal, or with every update",
    "prepare._check_state_store": "a state store that is not RocksDB's",
    "reference.reference_of": "no variable of a module",
    "reference.check_importable": "no variable of a module",
    "reference.resolve": "no variable of a module",
    "reference._in_main": "an application of `__main__`",
    "query.to_dataframe": "`source=` beside `sources=`",
    "query._named": "a name that another query has",
    "query.trigger_options": "a trigger that is none",
    "aggregate_rows._too_large": "more than 38 digits",
    "partial._check": "not of the declared type",
    "blobs._damaged": "",
    "blocks._damaged": "or one that is damaged",
    "run._process": "",
    "run._decode_head": "or one that is damaged",
    "run._check": "of another application or topology",
    "frame_columns.layout_of": "columns that do not fit",
    "frame_columns._named": "columns that do not fit",
    "frame_columns._check_keyless": "without keys where operators go by them",
    "frame_columns._fields": "columns that do not fit",
    "frame_columns._check_type": "columns that do not fit",
    "frame_columns._arrow_column": "columns that do not fit",
    "frame_sources.frame_sources": "a bounded DataFrame beside a stream",
    "frame_sources._check_partitioners": "does not meet those it is joined with",
    "framed.framed": "beside DataFrames in place of topics",
    "framed._chosen_for": "partitions that cannot be known",
    "typed_columns.only_topic": "one of several outputs without `topic=`",
    "typed_columns.sink_serdes": "does not read or write",
    "typed_columns.source_serdes": "does not read or write",
}
_REFUSES = re.compile(
    r"\b(Config|Topology|State|StateLocked|Streamlet|MissingTopic|AppNotFound|PositionsMismatch)"
    r"Error\("
)


def test_the_second_table_has_all_else_that_is_refused() -> None:
    """A new refusal needs its row, and its line in ``ROWS``."""
    found = set()
    for file in sorted((ROOT / "streamlet" / "spark").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if not isinstance(node, ast.FunctionDef):
                continue
            listed = "REFUSALS" in ast.unparse(node) or "_circle" in ast.unparse(node)
            raised = (one for one in ast.walk(node) if isinstance(one, ast.Raise | ast.Return))
            if not listed and any(_REFUSES.search(ast.unparse(one)) for one in raised):
                found.add(f"{file.stem}.{node.name}")
    assert found - {"refusals.check_settings"} == ROWS.keys()
    table = PAGE.partition("Then what does not fit")[2].partition("\n## ")[0]
    assert [name for name, words in ROWS.items() if words not in table] == []
