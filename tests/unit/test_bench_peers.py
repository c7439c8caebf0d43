"""What the comparison with Kafka Streams concludes from runs, and the page it writes."""

from __future__ import annotations

from bench.peers.command import summary
from bench.peers.exact import differences
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
