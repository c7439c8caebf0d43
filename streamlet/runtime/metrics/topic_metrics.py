"""The metrics of topics: records, bytes, and the time from a record to its output."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from streamlet.runtime.metrics.metric import Value, counter, gauge, histogram

if TYPE_CHECKING:
    from streamlet.runtime.metrics.measure import MeasuredMember

_E2E = "streamlet_stream_processor_node_record_e2e_latency_"
_ABOUT = "about: of a few records of each batch, uncompressed"


def _of_topics(way: str, what: str, member: MeasuredMember) -> dict[tuple[str, ...], Value]:
    """A counter of each topic that was read (``consumed``), or written (``produced``)."""
    meters = getattr(member.meters.topics, way)
    return {(topic,): getattr(one, what) for topic, one in meters.items()}


TOPIC_METRICS = (
    histogram(
        _E2E + "seconds",
        "From a record's timestamp, which is that of the input it stems from, until the producer "
        "was given it, by output topic; of a few records of each batch, which stand for all",
        ("topic",),
        lambda m: {
            (topic,): one.latency.value() for topic, one in m.meters.topics.produced.items()
        },
    ),
    gauge(
        _E2E + "max_seconds",
        "The longest of those times in the last 30 s",
        ("topic",),
        lambda m: m.meters.topics.latency_max(),
    ),
    *(
        counter(
            f"streamlet_stream_topic_{what}_{way}_total",
            help,
            ("topic",),
            partial(_of_topics, way, what),
        )
        for way, what, help in (
            ("consumed", "records", "Records that tasks took from a topic"),
            ("consumed", "bytes", f"Their bytes, {_ABOUT}"),
            ("produced", "records", "Records written to an output or repartition topic"),
            ("produced", "bytes", f"Their bytes, {_ABOUT}"),
        )
    ),
)
