"""The values that the live page is made of: one reading of an application, and the one before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import msgspec

from streamlet.admin.advice import Observation
from streamlet.control.view import ControlView
from streamlet.types import TopicPartition


class GraphPart(msgspec.Struct, frozen=True):
    """A node, store or topic end of a described topology, as far as the page shows it."""

    name: str
    topic: str | None = None
    topics: tuple[str, ...] = ()
    successors: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()
    changelog: str | None = None
    key: str | None = None
    value: str | None = None


class GraphSubtopology(msgspec.Struct, frozen=True):
    """A subtopology of a described topology."""

    id: int
    sources: tuple[GraphPart, ...] = ()
    processors: tuple[GraphPart, ...] = ()
    sinks: tuple[GraphPart, ...] = ()
    stores: tuple[GraphPart, ...] = ()


class DescribedTopology(msgspec.Struct, frozen=True):
    """The part of ``streamlet describe --json`` that the page draws."""

    subtopologies: tuple[GraphSubtopology, ...] = ()

    @classmethod
    def of(cls, topology: Mapping[str, Any] | None) -> DescribedTopology | None:
        """Read a description, which any client may have noted; None if there is none."""
        try:
            return None if topology is None else msgspec.convert(topology, cls)
        except (msgspec.ValidationError, RecursionError):
            return None

    @property
    def stores(self) -> list[tuple[int, GraphPart]]:
        """The stores, each with its subtopology."""
        return [(part.id, store) for part in self.subtopologies for store in part.stores]

    @property
    def counted_topics(self) -> frozenset[str]:
        """The topics whose ends are read beside the committed ones: of sinks, and changelogs."""
        sinks = (one.topic for part in self.subtopologies for one in part.sinks)
        changelogs = (store.changelog for _, store in self.stores)
        return frozenset(topic for topic in (*sinks, *changelogs) if topic)


@attrs.frozen
class LiveReading:
    """An application at one moment.

    Attributes:
        at_ms: wall-clock time.
        status: the document of ``streamlet status --json``.
        seen: committed positions, and the ends of what is read.
        view: what members said last.
        topology: what the group runs, as the document of ``streamlet describe --json``.
        starts: first offsets of the partitions of outputs, changelogs and dead letters.
        ends: the offsets behind their last records.
        sizes: bytes of changelog partitions; those that brokers do not tell are left out.
        letters: topics of dead letters; None: not known.
    """

    at_ms: int
    status: dict[str, Any]
    seen: Observation
    view: ControlView = attrs.field(factory=ControlView)
    topology: DescribedTopology | None = None
    starts: Mapping[TopicPartition, int] = attrs.field(factory=dict)
    ends: Mapping[TopicPartition, int] = attrs.field(factory=dict)
    sizes: Mapping[TopicPartition, int] = attrs.field(factory=dict)
    letters: frozenset[str] | None = None

    def records(self, topic: str) -> int | None:
        """The records between the first and last offset of a topic; None: not known."""
        known = [tp for tp in self.ends if tp.topic == topic and tp in self.starts]
        return sum(self.ends[tp] - self.starts[tp] for tp in known) if known else None

    def bytes_of(self, topic: str) -> int | None:
        """The bytes of a changelog; None: not known."""
        known = [size for tp, size in self.sizes.items() if tp.topic == topic]
        return sum(known) if known else None
