"""What the comparison with Kafka Streams concludes from runs, and the page it writes."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree

import pytest

from bench.handover_drawing import THEMES
from bench.peers.command import machine, summary
from bench.peers.exact import differences
from bench.peers.page import FIGURES, NAMES, PAGE, PICTURES, WHAT, drawn, page
from bench.processes import Measurement
from bench.rounds import Outcome


def outcome(rate: float, cpu: float, wrong: str = "") -> Outcome:
    return Outcome(Measurement(rate, cpu, 100.0, {}), wrong)


def test_ratios_are_to_the_faster_number_of_threads_in_the_same_round() -> None:
    found = summary(
        {
            "kafka_streams_1": [outcome(100, 8), outcome(60, 8)],
            "kafka_streams_2": [outcome(50, 9), outcome(120, 9)],
            "streamlet_python": [outcome(300, 4), outcome(240, 4)],
        }
    )
    assert found["better"] == "kafka_streams_2"
    assert found["ratios"]["streamlet_python"] == 4  # between 6 and 2
    assert found["cpu_ratios"]["streamlet_python"] == 2.25
    assert found["right"] is True


def test_one_wrong_output_makes_all_wrong() -> None:
    found = summary({"kafka_streams_1": [outcome(1, 1)], "bare": [outcome(1, 1, "two missing")]})
    assert found["right"] is False


def test_another_value_time_order_or_number_of_updates_is_a_difference() -> None:
    one, two = (b"1", 10), (b"2", 20)
    theirs = {b"a": [one, two], b"b": [one, two], b"c": [one, two], b"d": [one], b"e": [one, two]}
    ours = {b"a": [one, two], b"b": [two, one], b"c": [one], b"d": [(b"1", 11)], b"f": [one]}
    assert [word for word, *_ in differences(theirs, ours)] == [
        "b'b'",
        "b'c'",
        "b'd'",
        "b'e'",
        "b'f'",
    ]


def measured(load_average: float = 0.1) -> dict[str, Any]:
    rates = {name: 1_000 * (number + 1) for number, name in enumerate(NAMES)}
    of_one = {"cpu_s_per_m": 4.25, "rss_mb": 110.4}
    found: dict[str, Any] = {
        workload: {
            **{name: {"rate": rate, **of_one} for name, rate in rates.items()},
            "better": "kafka_streams_2",
            "ratios": {name: rate / 2_000 for name, rate in rates.items()},
        }
        for workload in WHAT
    }
    where = {**machine(), "load_average": load_average}
    size = {"records": 1_000_000, "keys": 10_000, "runs": 3}
    return {"machine": where, **size, **found, "skipped": {"quix": "no network"}}


def test_the_page_has_a_row_of_each_program_and_says_when_the_machine_was_busy() -> None:
    written = page(measured())
    assert "| streamlet, kafka.client=native | 5,000 | 2.50 | 4.2 | 110 |" in written
    assert written.count("Kafka Streams, 2 threads | 2,000 | 1.00") == len(WHAT)
    assert "Quix Streams could not be had" in written
    assert "load average" not in written
    assert "The load average was 9.5 at the start." in page(measured(9.5))


@pytest.mark.parametrize("theme", THEMES)
def test_each_program_has_a_bar_as_long_as_its_rate(theme: str) -> None:
    found = ElementTree.fromstring(drawn(measured(), theme))
    widths = [float(bar.attrib["width"]) for bar in found.iter() if bar.tag.endswith("rect")]
    assert len(widths) == len(WHAT) * len(NAMES)
    assert widths[3] == pytest.approx(4 * widths[0], rel=0.01)
    assert {f"{1_000 * number:,}" for number in range(1, 7)} <= {text.text for text in found.iter()}


def test_the_page_is_made_from_the_figures_that_are_there() -> None:
    """Else run `python -m bench peers --docs`."""
    figures = json.loads(FIGURES.read_text("utf-8")) if FIGURES.exists() else None
    assert PAGE.read_text("utf-8") == page(figures)
    for theme in THEMES if figures else ():
        picture = (PICTURES / f"peers-{theme}.svg").read_text("utf-8")
        assert picture == drawn(figures, theme)
