"""The document of the live page: its rates, delays, time line, graph and sizes, from readings."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import msgspec
import pytest

from streamlet.topology.layout import BOX_HEIGHT, BOX_WIDTH, layout
from streamlet.web.live.document import LiveDocument
from streamlet.web.live.graph import TopologyDrawing
from streamlet.web.live.timeline import GAP_MS
from streamlet.web.live.values import DescribedTopology
from tests.unit.web.live.made_up import HOSTILE, MadeUp, topology


def _way(found: dict[str, Any], start: str, end: str) -> Any:
    (way,) = [one for one in found["graph"]["ways"] if (one["from"], one["to"]) == (start, end)]
    return way["counts"]


@pytest.mark.parametrize("instances", [1, 8, 40])
def test_the_document_has_all_instances_and_figures_on_the_edges(instances: int) -> None:
    made, page = MadeUp.of(instances, late=4), LiveDocument()
    first = page.of(made.reading())
    assert first["totals"]["rate"] is None
    made.later()
    made.committed, made.end, made.output = 2_000, 2_500, 700
    found = page.of(made.reading())
    assert found["totals"] == {
        "instances": instances,
        "members": instances,
        "tasks": 2 * instances,
        "rate": 2_000.0,
        "lag": 500,
        "latency": 40 + len(f"h{instances}"),
        "delay": {"ms": 0, "at_least": False},
        "delays": {"orders": {"ms": 0, "at_least": False}},
        "late": 4,
        "dropped": 0,
    }
    read = _way(found, "topic:orders", "node:0:read")
    assert (read["rate"], read["lag"], read["late"]) == (2_000.0, 500, 0)
    again = _way(found, "topic:counts-repartition", "node:1:again")
    assert again["late"] == 4
    assert _way(found, "node:1:write", "topic:out") == {
        "rate": 700.0,
        "latency": 40 + len(f"h{instances}"),
    }
    assert _way(found, "node:1:count", "store:1:counts") is None
    (store,) = found["stores"]
    assert (store["records"], store["bytes"]) == (1_000, 50_000)
    assert found["letters"] == [{"topic": "letters", "records": 3, "rate": 0.0}]
    assert msgspec.json.decode(msgspec.json.encode(found))["totals"] == found["totals"]


def test_a_delay_is_the_age_of_the_oldest_record_that_is_not_committed() -> None:
    made, page = MadeUp.of(1), LiveDocument()
    page.of(made.reading())
    made.later()
    made.end = 10
    page.of(made.reading())
    for _ in range(100):
        made.later()
        made.end += 10
        found = page.of(made.reading())
    assert found["totals"]["delay"] == {"ms": 100_000, "at_least": False}
    made.committed = made.end - 5
    found = page.of(made.reading())
    assert found["totals"]["delay"] == {"ms": 0, "at_least": False}
    made.committed = made.end
    made.later()
    assert page.of(made.reading())["totals"]["delay"] == {"ms": 0, "at_least": False}


def test_a_record_that_was_there_before_the_first_reading_may_be_older() -> None:
    made, page = MadeUp.of(1, end=10), LiveDocument()
    page.of(made.reading())
    made.later(5_000)
    assert page.of(made.reading())["totals"]["delay"] == {"ms": 5_000, "at_least": True}


def test_a_hand_over_tells_its_stages_its_rest_and_its_silence() -> None:
    made, page = MadeUp.of(2), LiveDocument()
    page.of(made.reading())
    made.later()
    made.learners = {"1_0": "h2"}
    found = page.of(made.reading())
    (moving,) = found["status"]["handovers"]
    assert (moving["left"], moving["bytes_left"], moving["eta_s"]) == (600, 30_000, 3.0)
    began_ms = made.at_ms
    made.later()
    made.learners, made.owners["1_0"], made.stopped = {}, "h2", frozenset({"1_0"})
    page.of(made.reading())
    stopped_ms = made.at_ms
    made.later(700)
    made.stopped = frozenset()
    (move,) = [one for one in page.of(made.reading())["timeline"] if one["kind"] == "move"]
    assert move == {
        "kind": "move",
        "task": "1_0",
        "from": "h1-0",
        "to": "h2-0",
        "at_ms": began_ms,
        "ended_ms": stopped_ms + 700,
        "ended": "moved",
        "stages": {"learning": began_ms},
        "silence_ms": 700,
    }


def test_a_task_that_moves_between_two_readings_is_on_the_time_line() -> None:
    made, page = MadeUp.of(2), LiveDocument()
    page.of(made.reading())
    made.later()
    made.owners["0_0"] = "h2"
    events = page.of(made.reading())["timeline"]
    assert [(one["task"], one["from"], one["to"], one["ended"]) for one in events[:1]] == [
        ("0_0", "h1-0", "h2-0", "moved")
    ]
    assert events[0]["silence_ms"] == 0
    assert [one["kind"] for one in events[1:]] == ["rebalance"]


def test_the_silence_of_a_task_whose_owner_died_begins_when_it_was_last_seen_to_run() -> None:
    made, page = MadeUp.of(2), LiveDocument()
    made.owners.pop("0_0")
    page.of(made.reading())
    made.later()
    last_ms = made.at_ms
    page.of(made.reading())
    for _ in range(4):  # h1 is gone, and its task has no owner yet
        made.later()
        made.owners.pop("1_0", None)
        page.of(made.reading())
    made.later()
    made.owners["1_0"] = "h2"
    (move, *_) = page.of(made.reading())["timeline"]
    assert (move["from"], move["to"], move["silence_ms"]) == ("h1-0", "h2-0", made.at_ms - last_ms)


def test_a_time_without_readings_makes_no_silence() -> None:
    made, page = MadeUp.of(2), LiveDocument()
    page.of(made.reading())
    made.later(GAP_MS + 1)
    made.owners["0_0"] = "h2"
    assert [one["kind"] for one in page.of(made.reading())["timeline"]] == ["rebalance"]


def test_hostile_names_stay_as_they_are() -> None:
    names = HOSTILE[0], HOSTILE[1], HOSTILE[3]
    made = MadeUp.of(1, names=names, problem=HOSTILE[2], letters=frozenset({HOSTILE[4]}))
    found = LiveDocument().of(made.reading())
    assert {one["label"] for one in found["graph"]["boxes"]} >= set(names)
    assert found["errors"] == [{"about": "0_0 on h1-0", "text": HOSTILE[2]}]
    assert found["letters"][0]["topic"] == HOSTILE[4]


@pytest.mark.parametrize(
    "noted",
    [
        {"subtopologies": 1},
        {"subtopologies": [{"id": "a"}]},
        {"subtopologies": [{"id": 0, "sources": [{"topics": ["t"]}]}]},
        [],
    ],
)
def test_a_description_that_is_none_draws_nothing(noted: Any) -> None:
    assert DescribedTopology.of(noted) is None


def test_a_description_that_is_too_large_draws_nothing() -> None:
    sources = [{"name": f"s{number}", "topics": [f"t{number}"]} for number in range(400)]
    made = MadeUp.of(1)
    reading = made.reading()
    large = DescribedTopology.of({"subtopologies": [{"id": 0, "sources": sources}]})
    object.__setattr__(reading, "topology", large)
    assert LiveDocument().of(reading)["graph"] is None


def test_a_graph_that_many_long_ways_cross_takes_little_time() -> None:
    boxes = [f"b{number}" for number in range(600)]
    edges = [*pairwise(boxes), *((a, b) for a in boxes[:40] for b in boxes[-35:])]
    found = layout(boxes, edges)
    assert found.ways.keys() == {*edges}
    assert sum(map(len, found.ways.values())) < 20_000
    processors = [{"name": f"p{a}", "successors": [f"p{b}" for b in range(60)]} for a in range(60)]
    tangled = DescribedTopology.of({"subtopologies": [{"id": 0, "processors": processors}]})
    assert tangled is not None
    assert TopologyDrawing(tangled).too_large


def test_boxes_lie_apart_and_below_those_that_they_hang_on() -> None:
    boxes = [f"b{number}" for number in range(24)]
    edges = [
        (boxes[a], boxes[b]) for a, b in combinations(range(24), 2) if (a * 7 + b * 3) % 5 == 0
    ]
    found = layout(boxes, [*edges, ("b23", "b0"), ("b1", "b1"), ("b0", "gone")])
    for one, other in combinations(boxes, 2):
        (x, y), (x2, y2) = found.boxes[one], found.boxes[other]
        assert abs(x - x2) >= BOX_WIDTH or abs(y - y2) >= BOX_HEIGHT, (one, other)
    assert all(found.boxes[a][1] < found.boxes[b][1] for a, b in edges)
    assert found.ways.keys() == {*edges, ("b23", "b0")}
    for x, y in found.boxes.values():
        assert 0 <= x <= found.width - BOX_WIDTH
        assert 0 <= y <= found.height - BOX_HEIGHT


def test_an_empty_topology_has_no_box() -> None:
    assert layout([], []).height == 0.0
    assert DescribedTopology.of(topology()) == DescribedTopology.of(topology())
