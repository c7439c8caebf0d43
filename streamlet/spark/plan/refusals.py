"""The things that do not run on Spark, each with its reason and the way out.

``REFUSALS`` is the one list: messages are made of it, and docs/spark-refusals.md has a row for
each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from streamlet.config.security import OAUTH_FUNCTION
from streamlet.errors import ConfigError, TopologyError
from streamlet.logs import get_logger

if TYPE_CHECKING:
    from streamlet.config import Settings
    from streamlet.processing.policy import ErrorPolicy
    from streamlet.spark.plan.reference import Application
    from streamlet.topology.graph import Topology

log = get_logger(__name__)


@attrs.frozen
class Refusal:
    """A thing that does not run on Spark.

    Args:
        what: its name, in the plural or as a setting.
        why: the reason, as the end of a sentence.
        instead: the way out.
        words: the words by which a program asks for it.
    """

    what: str
    why: str
    instead: str
    words: str

    def message(self, names: Iterable[str] = ()) -> str:
        """The error, with the names of what was found."""
        found = ", ".join(names)
        what = f"{self.what} ({found})" if found else self.what
        return f"{what} do not run on Spark, {self.why}; {self.instead}"


_NATIVE = "--engine native can"

#: All of them, by a name for the code.
REFUSALS: Mapping[str, Refusal] = {
    "globals": Refusal(
        "global tables",
        "whose tasks live for a batch and read its records only",
        f"{_NATIVE}, or a table() with the same key",
        "`global_table()`",
    ),
    "patterns": Refusal(
        "streams of topics by a pattern",
        "whose checkpoint is of fixed topics",
        f"{_NATIVE}, or give the topics by name",
        "`stream(re.compile(…))`",
    ),
    "partitioners": Refusal(
        "partitioners of repartition()",
        "which shuffles rows by their keys",
        f"{_NATIVE}, or leave the partitioner to the sink, to(…, partitioner=)",
        "`repartition(…, partitioner=)`",
    ),
    "punctuators": Refusal(
        "processors with punctuators",
        "whose batches have no clock and begin processors again",
        f"{_NATIVE}, or a state function with timers by stream time",
        "`context.schedule()`",
    ),
    "clock": Refusal(
        "results that come by the clock",
        "whose batches have no clock",
        f"{_NATIVE}, or leave close_idle_after=, emit_interval= or timers='wall_clock' out: "
        "results come by stream time then",
        '`close_idle_after=`, `emit_interval=`, `timers="wall_clock"`',
    ),
    "contexts": Refusal(
        "functions with a RecordContext",
        "where headers are not read",
        f"{_NATIVE}, or put into the value what the function needs",
        "`with_context()`, a parameter of type `RecordContext`",
    ),
    "headed": Refusal(
        "stores that keep headers",
        "where headers are not read",
        f"{_NATIVE}, or leave headers= out of Materialized",
        "`Materialized(headers=True)`",
    ),
    "uncaught": Refusal(
        "handlers of errors that end a worker",
        "which tries a task again itself, and then ends the query with the error",
        "leave uncaught_handler out, and decide about records that fail with on_error= or "
        "processing_handler=",
        "`uncaught_handler=`",
    ),
    "tokens": Refusal(
        "functions that get tokens",
        "whose processes take settings as text",
        "give the token endpoint, sasl.oauthbearer.token.endpoint.url and what belongs to it",
        "`App(oauth=)`",
    ),
    "wrappers": Refusal(
        "hooks around nodes",
        "where many nodes become steps of Spark",
        f"{_NATIVE}, or leave processor_wrapper= and processor.wrapper out",
        "`App(processor_wrapper=)`, `processor.wrapper=`",
    ),
    "optimization": Refusal(
        "settings of topology.optimization that are not the program's",
        "each of whose processes makes the topology for itself, from the program alone",
        "give it to App(config=…)",
        "`--set topology.optimization=`",
    ),
    "letters": Refusal(
        "settings of errors.dead.letter.queue.topic.name that are not the program's",
        "each of whose processes decides about records that fail by the program alone",
        "give it to App(config=…)",
        "`--set errors.dead.letter.queue.topic.name=`",
    ),
    "guarantee": Refusal(
        "transactions",
        "whose sinks for Kafka write at least once",
        f"{_NATIVE}, or use processing.guarantee=at_least_once: state is exact in either case",
        "`processing.guarantee=exactly_once`",
    ),
    "reset": Refusal(
        "starts without a position",
        "where a query without a checkpoint begins somewhere",
        "use auto.offset.reset=earliest or latest",
        "`auto.offset.reset=none`",
    ),
    "durations": Refusal(
        "streams that begin at a time before now",
        "where a query without a checkpoint begins at the first records or at the last",
        f"{_NATIVE}, or reset='earliest' and a filter of the records' times",
        "`reset=sl.by_duration(…)`",
    ),
    "http": Refusal(
        "queries over HTTP",
        "whose tasks live for a batch, in whatever process",
        f"{_NATIVE}, or leave http.port out and query the output topic of a table",
        "`http.port=`",
    ),
    "tracing": Refusal(
        "spans",
        "where headers are not read",
        f"{_NATIVE}, or leave tracing.enabled and tracer_provider= out",
        "`tracing.enabled=true`, `App(tracer_provider=)`",
    ),
    "circles": Refusal(
        "operators that read through a repartition topic what comes of their own output",
        "where a query has no way back",
        f"{_NATIVE}, or send the records through a topic of your own: to(), then stream()",
        "a join of the result of a join by foreign keys with the left table of that",
    ),
}


_WITHOUT_EFFECT = ("repartition.exact", "repartition.commit.interval.ms")


def refuse(app: Application, topology: Topology, settings: Settings) -> None:
    """Refuse an application that does not run on Spark.

    Args:
        app: the application.
        topology: as it is run.
        settings: of the run.

    Raises:
        TopologyError: an operator does not; the message names it, and the way out.
        ConfigError: a setting or a handler does not.
    """
    check_policy(app.policy)
    check_settings(settings, app.settings)
    if app.processor_wrapper is not None:
        raise ConfigError([REFUSALS["wrappers"].message(["App(processor_wrapper=)"])])
    if app.tracer_provider is not None:
        raise ConfigError([REFUSALS["tracing"].message(["App(tracer_provider=)"])])
    if names := without_effect(settings):
        log.warning(
            "%s: no effect on Spark, which has no repartition topics: records go through its "
            "shuffles, and state is exact by its checkpoint",
            " and ".join(names),
        )
    check_topology(topology)


def without_effect(settings: Settings) -> list[str]:
    """Names of settings that say something, and on Spark of nothing: there is no such topic."""
    usual = type(settings)()
    fields = {name: name.replace(".", "_") for name in _WITHOUT_EFFECT}
    return [name for name, of in fields.items() if getattr(settings, of) != getattr(usual, of)]


def check_policy(policy: ErrorPolicy) -> None:
    """Refuse a handler of errors that end a worker.

    Raises:
        ConfigError: there is one.
    """
    if policy.uncaught is not None:
        raise ConfigError([REFUSALS["uncaught"].message(["uncaught_handler"])])


def check_settings(settings: Settings, program: Settings) -> None:
    """Refuse settings that Spark cannot carry out.

    Raises:
        ConfigError: naming all.
    """
    found = []
    if settings.topology_optimization != program.topology_optimization:
        found.append(REFUSALS["optimization"].message())
    letters = settings.errors_dead_letter_queue_topic_name
    if letters != program.errors_dead_letter_queue_topic_name:
        found.append(REFUSALS["letters"].message())
    if OAUTH_FUNCTION in settings.security:
        found.append(REFUSALS["tokens"].message(["App(oauth=)"]))
    if settings.processor_wrapper is not None:
        named = f"processor.wrapper={settings.processor_wrapper}"
        found.append(REFUSALS["wrappers"].message([named]))
    guarantee = settings.processing_guarantee
    if guarantee != "at_least_once":
        found.append(REFUSALS["guarantee"].message([f"processing.guarantee={guarantee}"]))
    if settings.auto_offset_reset == "none":
        found.append(REFUSALS["reset"].message(["auto.offset.reset=none"]))
    if settings.http_port is not None:
        found.append(REFUSALS["http"].message([f"http.port={settings.http_port}"]))
    if settings.tracing_enabled:
        found.append(REFUSALS["tracing"].message(["tracing.enabled=true"]))
    if found:
        raise ConfigError(found)


def check_topology(topology: Topology) -> None:
    """Refuse operators that do not run on Spark; ``plan`` refuses circles.

    Raises:
        TopologyError: naming those of the first kind that is found.
    """
    from streamlet.dsl.graph.record_context import (
        InContext,  # with the topology, which not all here need
    )
    from streamlet.topology.nodes import ByDuration

    processors = [node for part in topology.subtopologies for node in part.processors]
    inside = set(topology.repartition_topics)
    sources = (source for part in topology.subtopologies for source in part.sources)
    sinks = (sink for part in topology.subtopologies for sink in part.sinks)
    context: Any = None  # an operator without stores asks for none
    found = {
        "globals": [table.topic for table in topology.global_tables],
        "contexts": [
            node.name
            for node in processors
            if not (node.stores or node.globals) and isinstance(node.factory(context), InContext)
        ],
        "partitioners": sorted(
            {sink.topic for sink in sinks if sink.partitioner and sink.topic in inside}
        ),
        "punctuators": [node.name for node in processors if node.timed == "with punctuators"],
        "clock": [node.name for node in processors if node.timed == "by the clock"],
        "patterns": list(topology.patterns),
        "headed": [
            spec.name for part in topology.subtopologies for spec in part.stores if spec.headers
        ],
        "durations": [
            topic
            for source in sources
            if isinstance(source.reset, ByDuration)
            for topic in source.topics
        ],
    }
    for kind, names in found.items():
        if names:
            raise TopologyError(REFUSALS[kind].message(names))
