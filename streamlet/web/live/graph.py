"""The drawn graph of a topology, with what is counted on its edges; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamlet.topology.layout import BOX_HEIGHT, BOX_WIDTH, Edge, layout
from streamlet.web.live.history import ArrivalDelay, ReadingHistory
from streamlet.web.live.values import DescribedTopology, GraphSubtopology, LiveReading

#: Boxes of a graph and ways between them at most: a drawing of more shows nothing.
MOST_BOXES, MOST_WAYS = 600, 2_000


class TopologyDrawing:
    """The boxes and ways of a topology, placed once.

    Args:
        topology: the described topology.
    """

    def __init__(self, topology: DescribedTopology) -> None:
        self.topology = topology
        self._boxes: dict[str, dict[str, Any]] = {}
        self._ways: dict[Edge, dict[str, Any]] = {}
        for part in topology.subtopologies:
            self._add_nodes(part)
        for part in topology.subtopologies:
            self._connect(part)
        self.too_large = len(self._boxes) > MOST_BOXES or len(self._ways) > MOST_WAYS
        self._layout = layout([*self._boxes] if not self.too_large else [], self._ways)

    def _box(self, box: str, kind: str, label: str, part: int | None) -> str:
        self._boxes.setdefault(box, {"id": box, "kind": kind, "label": label, "part": part})
        return box

    def _add_nodes(self, part: GraphSubtopology) -> None:
        for source in part.sources:
            for topic in source.topics:
                self._box(f"topic:{topic}", "topic", topic, None)
        for kind, nodes in (
            ("source", part.sources),
            ("processor", part.processors),
            ("sink", part.sinks),
        ):
            for node in nodes:
                self._box(f"node:{part.id}:{node.name}", kind, node.name, part.id)
        for store in part.stores:
            self._box(f"store:{part.id}:{store.name}", "store", store.name, part.id)

    def _connect(self, part: GraphSubtopology) -> None:
        for source in part.sources:
            for topic in source.topics:
                way = f"topic:{topic}", f"node:{part.id}:{source.name}"
                self._ways[way] = {"reads": topic, "part": part.id}
        for node in (*part.sources, *part.processors):
            here = f"node:{part.id}:{node.name}"
            self._ways |= {(here, f"node:{part.id}:{one}"): {} for one in node.successors}
            self._ways |= {(here, f"store:{part.id}:{one}"): {"store": one} for one in node.stores}
        for sink in part.sinks:
            if sink.topic is not None:
                topic = self._box(f"topic:{sink.topic}", "topic", sink.topic, None)
                self._ways[f"node:{part.id}:{sink.name}", topic] = {"writes": sink.topic}

    def document(self, reading: LiveReading, history: ReadingHistory) -> dict[str, Any] | None:
        """The graph with its figures of a reading; None: it is too large to be drawn."""
        if self.too_large:
            return None
        boxes = [
            {**box, "x": self._layout.boxes[one][0], "y": self._layout.boxes[one][1]}
            for one, box in self._boxes.items()
        ]
        figures = _Figures(reading, history)
        ways = [
            {
                "from": way[0],
                "to": way[1],
                "points": points,
                "counts": figures.of(self._ways[way]),
            }
            for way, points in self._layout.ways.items()
        ]
        return {
            "width": self._layout.width,
            "height": self._layout.height,
            "box": [BOX_WIDTH, BOX_HEIGHT],
            "boxes": boxes,
            "ways": ways,
        }


class _Figures:
    """The figures of the ways at one reading."""

    def __init__(self, reading: LiveReading, history: ReadingHistory) -> None:
        self._status = reading.status
        self._done, self._written = history.committed_rates(), history.written_rates()
        self._delays, self._latencies = history.delays(), latencies(reading.status)
        self._late = _by_subtopology(reading.status, "late")
        self._dropped = _by_subtopology(reading.status, "dropped")

    def of(self, way: Mapping[str, Any]) -> dict[str, Any] | None:
        if "reads" in way:
            topic, part = way["reads"], way["part"]
            lag = self._status["input_lag"].get(topic)
            return {
                "rate": self._done.get(topic),
                "lag": None if lag is None else sum(lag.values()),
                "late": self._late.get(part, 0),
                "dropped": self._dropped.get(part, 0),
                "delay": delay_shown(self._delays.get(topic)),
            }
        if "writes" not in way:
            return None
        topic = way["writes"]
        return {"rate": self._written.get(topic), "latency": self._latencies.get(topic)}


def latencies(status: Mapping[str, Any]) -> dict[str, int]:
    """The longest times of the last half minute from a record to its output, ms, by topic."""
    found: dict[str, int] = {}
    for instance in status["instances"]:
        for member in instance["members"]:
            for topic, ms in (member["latency_ms"] or {}).items():
                found[topic] = max(ms, found.get(topic, 0))
    return found


def delay_shown(delay: ArrivalDelay | None) -> dict[str, Any] | None:
    """A delay in the page's document."""
    return None if delay is None else {"ms": delay.ms, "at_least": delay.at_least}


def _by_subtopology(status: Mapping[str, Any], field: str) -> dict[int, int]:
    """Records of the active tasks, by subtopology."""
    found: dict[int, int] = {}
    for instance in status["instances"]:
        for member in instance["members"]:
            for task in member["tasks"]:
                part = int(task["task"].partition("_")[0])
                found[part] = found.get(part, 0) + (task[field] or 0)
    return found
