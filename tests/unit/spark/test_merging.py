"""Rows of several senders come together in the order of their records' times."""

from __future__ import annotations

import random

from streamlet.spark.rows.blobs import Records, pack
from streamlet.spark.rows.merging import merged_by_record, merged_by_row
from streamlet.spark.rows.packing import Packed

Sent = dict[str, list[int]]


def rows(sent: Sent, chunk: int, topic: str = "t") -> list[Packed]:
    """The times of each sender as rows of so many records; a value names sender and place."""
    found = []
    for sender, times in sent.items():
        for at in range(0, len(times), chunk):
            some = times[at : at + chunk]
            values: list[bytes | None] = [
                f"{sender}{place}".encode() for place in range(at, at + len(some))
            ]
            blob = pack(Records([None] * len(some), values, some))
            found.append(Packed(0, sender, at, 0, some[0], topic, 0, blob))
    return found


def merged(given: list[Packed]) -> list[tuple[int, bytes | None]]:
    return [
        pair
        for _, records in merged_by_record(given)
        for pair in zip(records.timestamps, records.values, strict=True)
    ]


def test_records_of_senders_in_order_come_in_order() -> None:
    dice = random.Random(3)
    for _ in range(50):
        senders = "abcd"[: dice.randint(1, 4)]
        sent = {one: sorted(dice.choices(range(60), k=dice.randint(1, 40))) for one in senders}
        given = rows(sent, dice.randint(1, 12))
        dice.shuffle(given)
        found = merged(given)
        assert [time for time, _ in found] == sorted(t for times in sent.values() for t in times)
        assert len({value for _, value in found}) == sum(map(len, sent.values()))


def test_a_senders_own_order_stays() -> None:
    """An older record goes with the newer one before it, and lets nothing of others pass."""
    dice = random.Random(4)
    for _ in range(50):
        sent = {one: dice.choices(range(60), k=dice.randint(1, 40)) for one in "abc"}
        given = rows(sent, dice.randint(1, 12))
        dice.shuffle(given)
        found = merged(given)
        newest = {one: 0 for one in sent}
        held = []
        for time, value in found:
            assert value is not None
            sender = chr(value[0])
            newest[sender] = max(newest[sender], time)
            held.append(newest[sender])
        assert held == sorted(held)
        for one, times in sent.items():
            mine = [time for time, value in found if value and value.startswith(one.encode())]
            assert mine == times


def test_merging_by_rows_leaves_rows_whole() -> None:
    given = rows({"a": [1, 2, 9, 10], "b": [3, 4]}, 2)
    found = [records.timestamps for _, records in merged_by_row(reversed(given))]
    assert found == [[1, 2], [3, 4], [9, 10]]


def test_topics_are_kept_apart() -> None:
    given = rows({"a": [5, 6]}, 2, "s") + rows({"a": [1], "b": [2]}, 2, "t")
    found = [(row.topic, records.timestamps) for row, records in merged_by_record(given)]
    assert found == [("s", [5, 6]), ("t", [1]), ("t", [2])]
