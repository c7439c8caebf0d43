"""Checks of the topics that are written: no loops, and no origins that could not tell repeats."""

from __future__ import annotations

from collections.abc import Iterable

from streamlet.errors import TopologyError
from streamlet.topology.names import may_be_of
from streamlet.topology.nodes import SourceNode
from streamlet.topology.reach import answers_before, global_before, joined_before, timed_before
from streamlet.topology.subtopologies import Subtopology


def refuse_loop(above: Iterable[SourceNode], topic: str, to: str = "") -> None:
    """Refuse to write a topic that one of the sources above the sink reads.

    ``to`` is what the call was given in place of the topic, for the message.

    Raises:
        TopologyError: records would go round.
    """
    if any(source.reads(topic) for source in above):
        raise TopologyError(
            f"to({topic!r}) writes the topic that this stream is read from: each record would "
            "be read and written again for ever; write another topic, or, if fewer records go "
            f"back than are read, say so: to({to or repr(topic)}, feedback=True)"
        )


def refuse_chosen(application: str, above: Iterable[SourceNode], topic: str) -> None:
    """Refuse a topic that a function chose for a record: one of a loop, or of the application.

    Raises:
        TopologyError: records would go round, or into a changelog, say.
    """
    if may_be_of(topic, application):
        raise TopologyError(
            f"a record's topic {topic}: {application} itself makes and reads topics of such names; "
            "no function writes to them"
        )
    refuse_loop(above, topic, "function")


def check_origins(subtopology: Subtopology) -> None:
    """Refuse origins for results that may stem from other records a second time.

    Those that come at times of their own, and those of two streams that meet.
    """
    for sink in (sink for sink in subtopology.sinks if sink.origin):
        timed = timed_before(subtopology, sink.topic)
        if timed is not None:
            raise TopologyError(
                f"topic {sink.topic!r} is written with origins, and results of {timed.name} come "
                f"{timed.timed}, not each with a record: to(origin=True) cannot tell which of them "
                "are repeated"
            )
        answers = answers_before(subtopology, sink.topic)
        if answers is not None:
            raise TopologyError(
                f"topic {sink.topic!r} is written with origins, and its records come from a join "
                f"by foreign keys ({answers}): after a crash the same row is asked for and "
                "answered again, so to(origin=True) cannot tell which results are repeated"
            )
        looking = global_before(subtopology, sink.topic)
        if looking is not None:
            raise TopologyError(
                f"topic {sink.topic!r} is written with origins, and {looking.name} looks into a "
                f"global table ({', '.join(looking.globals)}): read again after a crash, the same "
                "records may meet newer rows, so to(origin=True) cannot tell which are repeated"
            )
        met = joined_before(subtopology, sink.topic)
        if met is not None:
            raise TopologyError(
                f"topic {sink.topic!r} is written with origins, and {met.name} joins records of "
                f"{' and '.join(subtopology.input_topics)}: read again after a crash, the other "
                "one of two may come second, so to(origin=True) cannot tell which results are "
                "repeated"
            )
