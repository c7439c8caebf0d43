"""Places of the boxes of a graph, in layers from top to bottom; pure.

Layers go by the longest way from a beginning; ways back, which a topic that feeds itself makes,
count for none. A way over several layers gets a point in each, so that it runs between boxes.
Boxes of a layer are in the order of the middle of those they hang on, which crosses few ways.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

import attrs

Edge: TypeAlias = tuple[str, str]

#: Pixels: of a box, between boxes beside each other, between layers, and around all.
BOX_WIDTH, BOX_HEIGHT, GAP_X, GAP_Y, MARGIN = 168, 46, 26, 58, 14
#: The width of a point on a long way.
_POINT_WIDTH = 12
_SWEEPS = 6
#: Points on long ways in all; of ways behind them those of many layers run straight.
_MOST_POINTS = 5_000


@attrs.frozen
class GraphLayout:
    """Upper left corners of boxes, the points of ways, and the size of all."""

    boxes: dict[str, tuple[float, float]]
    ways: dict[Edge, list[tuple[float, float]]]
    width: float
    height: float


def layout(boxes: Sequence[str], edges: Iterable[Edge]) -> GraphLayout:
    """Place boxes, whose order decides where nothing else does."""
    known = set(boxes)
    ways = [one for one in dict.fromkeys(edges) if known.issuperset(one) and one[0] != one[1]]
    down = _without_cycles(boxes, ways)
    layer = _layers(boxes, down)
    rows, chains = _rows(boxes, down, layer)
    _order(rows, chains)
    places = _places(rows, chains)
    width = max((x + _width(one) for one, x in places.items()), default=0) + MARGIN
    top = {
        one: MARGIN + number * (BOX_HEIGHT + GAP_Y)
        for number, row in enumerate(rows)
        for one in row
    }
    found = {one: (places[one], float(top[one])) for one in boxes}
    drawn = {(a, b): _way(a, b, chains.get((a, b)), places, top, found) for a, b in ways}
    height = MARGIN * 2 + len(rows) * (BOX_HEIGHT + GAP_Y) - GAP_Y if rows else 0
    return GraphLayout(found, drawn, width, float(height))


def _without_cycles(boxes: Sequence[str], edges: Sequence[Edge]) -> list[Edge]:
    """The edges without those that lead back to where a way has come from."""
    after: dict[str, list[str]] = defaultdict(list)
    for a, b in edges:
        after[a].append(b)
    inside, done, back = set[str](), set[str](), set[Edge]()
    into = {b for _, b in edges}
    for start in sorted(boxes, key=lambda one: one in into):
        if start in done:
            continue
        inside.add(start)
        way = [(start, iter(after[start]))]
        while way:
            here, left = way[-1]
            step = next(left, None)
            if step is None:
                way.pop()
                inside.discard(here)
                done.add(here)
            elif step in inside:
                back.add((here, step))
            elif step not in done:
                inside.add(step)
                way.append((step, iter(after[step])))
    return [one for one in edges if one not in back]


def _layers(boxes: Sequence[str], edges: Sequence[Edge]) -> dict[str, int]:
    """The layer of each box: one below the lowest of those before it."""
    before, waits = defaultdict(list), dict.fromkeys(boxes, 0)
    for a, b in edges:
        before[a].append(b)
        waits[b] += 1
    layer = dict.fromkeys(boxes, 0)
    ready = [one for one in boxes if not waits[one]]
    for here in ready:
        for one in before[here]:
            layer[one] = max(layer[one], layer[here] + 1)
            waits[one] -= 1
            if not waits[one]:
                ready.append(one)
    return layer


def _rows(
    boxes: Sequence[str], edges: Sequence[Edge], layer: Mapping[str, int]
) -> tuple[list[list[str]], dict[Edge, list[str]]]:
    """The boxes of each layer, with the points of ways that pass it; and each way by its points."""
    rows: list[list[str]] = [[] for _ in range(max(layer.values(), default=-1) + 1)]
    for one in boxes:
        rows[layer[one]].append(one)
    chains, left = {}, _MOST_POINTS
    for a, b in edges:
        if layer[b] - layer[a] - 1 > left:
            chains[a, b] = [a, b]
            continue
        points = [f"\0{a}\0{b}\0{number}" for number in range(layer[a] + 1, layer[b])]
        for number, point in enumerate(points, layer[a] + 1):
            rows[number].append(point)
        left -= len(points)
        chains[a, b] = [a, *points, b]
    return rows, chains


def _order(rows: list[list[str]], chains: Mapping[Edge, list[str]]) -> None:
    """Sort the layers, down and up again, by the middle of the neighbours of each box."""
    above, below = _neighbours(chains)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        beside = above if down else below
        place = {one: number for row in rows for number, one in enumerate(row)}
        for row in rows if down else reversed(rows):
            own = {one: number for number, one in enumerate(row)}
            row.sort(
                key=lambda one: (
                    _mean([place[n] for n in beside[one]], own[one]),
                    own[one],
                )
            )
            place |= {one: number for number, one in enumerate(row)}


def _neighbours(
    chains: Mapping[Edge, list[str]],
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    above: dict[str, list[str]] = defaultdict(list)
    below: dict[str, list[str]] = defaultdict(list)
    for chain in chains.values():
        for upper, lower in pairwise(chain):
            below[upper].append(lower)
            above[lower].append(upper)
    return above, below


def _places(rows: Sequence[Sequence[str]], chains: Mapping[Edge, list[str]]) -> dict[str, float]:
    """The left side of each box: near the middle of those above it, and over no other box."""
    above, below = _neighbours(chains)
    x: dict[str, float] = {}
    for row in rows:
        _pack(row, x, above)
    for row in reversed(rows):
        _pack(row, x, below)
    left = min(x.values(), default=0.0)
    return {one: at - left + MARGIN for one, at in x.items()}


def _pack(row: Sequence[str], x: dict[str, float], beside: Mapping[str, list[str]]) -> None:
    wanted = []
    for one in row:
        middles = [x[n] + _width(n) / 2 for n in beside[one] if n in x]
        own = x.get(one, 0.0) + _width(one) / 2
        wanted.append(_mean(middles, own) - _width(one) / 2)
    right, shift = None, []
    for one, at in zip(row, wanted, strict=True):
        at = at if right is None else max(at, right)
        x[one], right = at, at + _width(one) + GAP_X
        shift.append(x[one])
    over = sum(have - want for have, want in zip(shift, wanted, strict=True)) / max(len(row), 1)
    for one in row:
        x[one] -= over


def _way(
    a: str,
    b: str,
    chain: Sequence[str] | None,
    places: Mapping[str, float],
    top: Mapping[str, float],
    boxes: Mapping[str, tuple[float, float]],
) -> list[tuple[float, float]]:
    """The points of a way, from the lower side of a box to the upper side of another."""
    start = (boxes[a][0] + BOX_WIDTH / 2, boxes[a][1] + BOX_HEIGHT)
    end = (boxes[b][0] + BOX_WIDTH / 2, boxes[b][1])
    if chain is None:  # back up, beside the boxes
        side = max(boxes[a][0], boxes[b][0]) + BOX_WIDTH + GAP_X / 2
        return [start, (side, start[1] + 8), (side, end[1] - 8), end]
    found = [start]
    for point in chain[1:-1]:
        middle = places[point] + _POINT_WIDTH / 2
        found += [(middle, top[point]), (middle, top[point] + BOX_HEIGHT)]
    return [*found, end]


def _width(one: str) -> int:
    return _POINT_WIDTH if one.startswith("\0") else BOX_WIDTH


def _mean(numbers: Sequence[float], otherwise: float) -> float:
    return sum(numbers) / len(numbers) if numbers else otherwise
