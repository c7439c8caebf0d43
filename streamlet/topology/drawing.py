"""A topology as a picture in HTML, as notebooks show it: topics, operators, and their stores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from streamlet.errors import TopologyError
from streamlet.topology.graph import Graph, Topology
from streamlet.topology.layout import BOX_HEIGHT, BOX_WIDTH, Edge, layout
from streamlet.topology.nodes import SinkNode
from streamlet.topology.subtopologies import Subtopology

#: Letters of a line in a box; the whole of it comes up under the mouse.
_LETTERS = 25
#: Boxes of a picture at most: a larger one shows nothing.
MOST_BOXES = 300


def picture_of(graph: Graph, optimizations: Iterable[str] = (), marked: str | None = None) -> str:
    """The picture of a topology that is being made, or a line that says why there is none.

    Args:
        graph: more can be added to it afterwards.
        optimizations: the value of ``topology.optimization``.
        marked: as of ``as_html``.
    """
    try:
        return as_html(graph.preview(optimizations), marked)
    except TopologyError as error:
        return f"<pre>{escape(str(error))}</pre>"


def as_html(topology: Topology, marked: str | None = None) -> str:
    """The picture of a topology; without links, scripts or styles of the page.

    Args:
        topology: what to draw.
        marked: the name of a node that stands out, a source for its topics.
    """
    picture = _Picture(topology, marked)
    boxes = picture.boxes
    if len(boxes) > MOST_BOXES:
        return f"<pre>{escape(topology.application)}: {len(boxes)} boxes, too many to draw</pre>"
    placed = layout([*boxes], picture.ways)
    ways = "".join(_way(points) for points in placed.ways.values())
    drawn = "".join(_box(placed.boxes[one], *box) for one, box in boxes.items())
    size = f'width="{placed.width:.0f}" height="{placed.height:.0f}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" '
        f'viewBox="0 0 {placed.width:.0f} {placed.height:.0f}" '
        'style="max-width:100%;height:auto;color:inherit" font-family="sans-serif">'
        f"<title>topology of {escape(topology.application)}</title>{ways}{drawn}</svg>"
    )


class _Picture:
    """Boxes, each with kind, two lines and whether it stands out, and the ways between them."""

    def __init__(self, topology: Topology, marked: str | None) -> None:
        self._marked = marked
        self.boxes: dict[str, tuple[str, str, str, bool]] = {}
        self.ways: list[Edge] = []
        for table in topology.global_tables:
            one = self._box(f"global {table.store.name}", "node", "global table", table.store.name)
            self.ways.append((self._topic(table.topic), one))
        for part in topology.subtopologies:
            self._add(part)

    def _add(self, subtopology: Subtopology) -> None:
        for source in subtopology.sources:
            if source.pattern is not None:
                label = f"topics {source.pattern.pattern}"
                starts = [self._box(source.name, "topic", label, "", source.name)]
            else:
                starts = [self._topic(topic, source.name) for topic in source.topics]
            ends = [*self._ends(subtopology, source.name)]
            self.ways += [(start, end) for start in starts for end in ends]
        for node in subtopology.processors:
            here = self._processor(subtopology, node.name)
            self.ways += [(here, end) for end in self._ends(subtopology, node.name)]

    def _ends(self, subtopology: Subtopology, name: str) -> Iterator[str]:
        """The boxes below a node."""
        for child in subtopology.children(name):
            node = subtopology.node(child)
            if not isinstance(node, SinkNode):
                yield self._processor(subtopology, child)
            elif node.topic:
                yield self._topic(node.topic, child)
            else:
                yield self._box(child, "topic", "a topic for each record", "", child)

    def _processor(self, subtopology: Subtopology, name: str) -> str:
        stores = next(one.stores for one in subtopology.processors if one.name == name)
        return self._box(f"node {name}", "node", name, ", ".join(stores), name)

    def _topic(self, topic: str, node: str = "") -> str:
        return self._box(f"topic {topic}", "topic", topic, "", node)

    def _box(self, box: str, kind: str, label: str, below: str = "", node: str = "") -> str:
        marked = self._marked is not None and node == self._marked
        if marked or box not in self.boxes:
            self.boxes[box] = (kind, label, below, marked)
        return box


def _way(points: list[tuple[float, float]]) -> str:
    at = " ".join(f"{x:.0f},{y:.0f}" for x, y in points)
    x, y = points[-1]
    return (
        f'<polyline points="{at}" fill="none" stroke="currentColor" stroke-opacity="0.55"/>'
        f'<path d="M{x:.0f},{y:.0f} l-4,-7 h8 z" fill="currentColor" fill-opacity="0.55"/>'
    )


def _box(at: tuple[float, float], kind: str, label: str, below: str, marked: bool) -> str:
    x, y = at
    round_ = BOX_HEIGHT / 2 if kind == "topic" else 4
    middle = x + BOX_WIDTH / 2
    lines = [(label, 12, "")] + ([(below, 11, ' fill-opacity="0.7"')] if below else [])
    first = y + (29 if len(lines) == 1 else 20)
    texts = "".join(
        f'<text x="{middle:.0f}" y="{first + number * 16:.0f}" text-anchor="middle" '
        f'font-size="{size}" fill="currentColor"{faint}>{escape(_short(text))}</text>'
        for number, (text, size, faint) in enumerate(lines)
    )
    whole = f"{label}: {below}" if below else label
    fill, line = (0.2, 2.5) if marked else (0.05, 1)
    return (
        f"<g><title>{escape(whole)}</title>"
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" '
        f'rx="{round_:.0f}" fill="currentColor" fill-opacity="{fill}" '
        f'stroke="currentColor" stroke-width="{line}"/>{texts}</g>'
    )


def _short(text: str) -> str:
    """A line that fits into a box; the beginning of a long name says least."""
    return text if len(text) <= _LETTERS else "…" + text[1 - _LETTERS :]
