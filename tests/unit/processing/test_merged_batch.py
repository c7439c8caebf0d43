"""Taking records of several inputs together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamlet.batch import Batch
from streamlet.processing.merged_batch import InputPlaces, MergedBatch, merge_order, merged
from streamlet.processing.output_order import OutputQueue
from streamlet.processing.outputs import Output
from streamlet.types import TopicPartition

LEFT, RIGHT = TopicPartition("left", 0), TopicPartition("right", 0)


def taken(left: str, right: str, order: str) -> MergedBatch:
    """Records of both sides with these keys; ``order`` names the side of each one."""
    parts = [
        Batch(*where, range(7, 7 + len(keys)), list(keys), list(keys), [0] * len(keys))
        for where, keys in ((LEFT, left), (RIGHT, right))
    ]
    return merged(parts, ["lr".index(side) for side in order])


def shown(batch: MergedBatch) -> str:
    return " ".join(f"{one.topic[0]}:{''.join(one.keys)}" for one in batch.batches)


def test_records_without_a_key_in_common_are_one_batch_for_each_input() -> None:
    batch = taken("aab", "cd", "lrlrl")
    assert shown(batch) == "l:aab r:cd"
    assert batch.positions == {LEFT: 10, RIGHT: 9}
    assert batch.places[LEFT].of([9, 7, 8]) == [4, 0, 2]
    assert batch.places[RIGHT].of(range(7, 9)) == [1, 3]


def test_a_record_of_a_key_that_another_input_had_before_comes_in_the_next_round() -> None:
    assert shown(taken("ab", "a", "llr")) == "l:ab r:a"
    assert shown(taken("ab", "a", "rll")) == "l:b r:a l:a"
    assert shown(taken("aabca", "aad", "lrllrlrl")) == "l:abc r:d r:a l:a r:a l:a"


def test_the_order_ends_where_an_input_does() -> None:
    assert merge_order([[1, 4, 5, 9], [2, 3, 7]], None) == [0, 1, 1, 0, 0, 1]
    assert merge_order([[1, 2], [2, 2, 3]], None) == [0, 0]
    assert merge_order([[2, 2, 3], [1, 2]], None) == [1, 0, 0, 1]


def test_the_order_ends_where_times_are_too_far_apart() -> None:
    assert merge_order([[10, 15, 21], [12, 20, 30]], 10) == [0, 1, 0, 1]
    assert merge_order([[10, 40], [30, 50]], 10) == [0]
    assert merge_order([[30, 10, 50], [60]], 10) == [0]


def one_after_the_other(columns: list[list[int]]) -> list[int]:
    """The order, by looking at the next record of each input until one has no more."""
    nexts, order = [0] * len(columns), []
    while all(at < len(column) for at, column in zip(nexts, columns, strict=True)):
        first = min(range(len(columns)), key=lambda one: columns[one][nexts[one]])
        order.append(first)
        nexts[first] += 1
    return order


@given(st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=12), min_size=2, max_size=4))
def test_the_order_is_that_of_taking_the_oldest_next_record(columns: list[list[int]]) -> None:
    assert merge_order(columns, None) == one_after_the_other(columns)


@given(st.lists(st.tuples(st.sampled_from("lr"), st.sampled_from("abc"))))
def test_records_of_a_key_keep_their_order(records: list[tuple[str, str]]) -> None:
    left, right = ("".join(key for side, key in records if side == one) for one in "lr")
    batch = taken(left, right, "".join(side for side, _ in records))
    came = [
        (key, place)
        for one in batch.batches
        for key, place in zip(
            one.keys, batch.places[TopicPartition(one.topic, 0)].of(one.offsets), strict=True
        )
    ]
    for wanted in "abc":
        places = [place for key, place in came if key == wanted]
        assert places == [at for at, (_, key) in enumerate(records) if key == wanted]


def output(topic: str, where: TopicPartition, *offsets: int, partition: bool = False) -> Output:
    values: list[bytes | None] = [f"{where.topic}{offset}".encode() for offset in offsets]
    origins = [(len(offsets), where, offsets)]
    chosen = [0] * len(offsets) if partition else None
    return Output(topic, values, values, list(offsets), chosen, None, list(origins))


def test_outputs_of_a_topic_are_put_into_the_order_of_their_records() -> None:
    queue = OutputQueue()
    queue.gather()
    queue.emit(output("out", LEFT, 1, 1, 3))
    queue.emit(output("other", LEFT, 3))
    queue.emit(output("out", RIGHT, 5, 6))
    assert queue.take() == [], "they wait for the last of them"
    queue.emit(output("out", LEFT, 2))
    places = {
        LEFT: InputPlaces.at(range(1, 4), [0, 2, 4]),
        RIGHT: InputPlaces.at(range(5, 7), [1, 3]),
    }
    assert queue.arrange(places) == 7
    out, other = queue.take()
    assert out.values == [b"left1", b"left1", b"right5", b"left2", b"right6", b"left3"]
    assert [out.origin(at) for at in (1, 2, 5)] == [(LEFT, 1), (RIGHT, 5), (LEFT, 3)]
    assert other.values == [b"left3"]


def test_outputs_with_and_without_partitions_stay_apart() -> None:
    queue = OutputQueue()
    queue.gather()
    queue.emit(output("out", LEFT, 1, 3, partition=True))
    queue.emit(output("out", RIGHT, 2))
    queue.arrange({LEFT: InputPlaces.at([1, 3], [0, 2]), RIGHT: InputPlaces.at([2], [1])})
    found = [(one.values, one.partitions) for one in queue.take()]
    assert found == [([b"left1"], [0]), ([b"right2"], None), ([b"left3"], [0])]
