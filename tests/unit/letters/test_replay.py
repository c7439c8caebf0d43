"""Each dead letter is given back once, wherever a replay breaks off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import attrs
import pytest

from streamlet.clock import ManualClock
from streamlet.errors import MissingTopicError, ProcessingError, StreamletError
from streamlet.kafka.ports import OutgoingRecords
from streamlet.letters.handled import Handled
from streamlet.letters.letter import REPLAYED, LetterFilter
from streamlet.letters.replay import DeadLetters, ReplayResult
from streamlet.processing.policy import reason_headers
from streamlet.testing.memory_ports import MemoryAdmin, MemoryLog, MemorySink, MemorySource
from streamlet.types import TopicPartition

EVERY = LetterFilter()
INTERNAL = "shop-x-repartition"


class Killed(BaseException):
    """The process ended here."""


@attrs.define
class Fuse:
    """Kills the replay at one of its steps."""

    left: int = -1

    def step(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise Killed


@attrs.define
class Positions:
    """A group in memory."""

    found: dict[TopicPartition, tuple[int, str]] = attrs.field(factory=dict)
    fuse: Fuse = attrs.field(factory=Fuse)

    def fetch(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, tuple[int, str]]:
        return {tp: self.found[tp] for tp in partitions if tp in self.found}

    def commit(self, states: Mapping[TopicPartition, tuple[int, str]]) -> None:
        self.fuse.step()
        self.found |= states
        self.fuse.step()

    def check_alive(self) -> None:
        self.fuse.step()

    def keep_alive(self) -> None: ...


@attrs.define
class Sink:
    """A producer that may be killed between any two records."""

    sink: MemorySink
    fuse: Fuse
    waited_ms: int = 0

    def send(self, records: OutgoingRecords) -> None:
        values, times, headers = records.values, records.timestamps, records.headers
        partitions = records.partitions
        assert times is not None
        assert headers is not None
        assert not isinstance(partitions, int)
        assert partitions is not None
        for i, key in enumerate(records.keys):
            self.fuse.step()
            one = slice(i, i + 1)
            columns = [key], values[one], times[one], partitions[one], headers[one]
            self.sink.send(OutgoingRecords(records.topic, *columns))

    def flush(self, timeout_ms: int) -> None:
        self.fuse.step()
        self.sink.flush(timeout_ms)

    def has_room(self, *, hurried: bool) -> bool:
        return True

    def push(self) -> None: ...

    def reset(self) -> None: ...

    def close(self) -> None: ...


@attrs.define
class Scene:
    """Letters of two applications in two partitions, other records between them."""

    log: MemoryLog = attrs.field(factory=MemoryLog)
    positions: Positions = attrs.field(factory=Positions)

    def __attrs_post_init__(self) -> None:
        for topic, partitions in (
            ("orders", 2),
            ("users", 1),
            ("dead", 2),
            ("shop-x-repartition", 1),
        ):
            self.log.create(topic, partitions)
        for number in range(6):
            self.letter(number, "orders" if number % 3 else "users")
            self.log.append(TopicPartition("dead", number % 2), [b"note"], [b"no letter"])

    def letter(self, number: int, topic: str, **differs: str) -> None:
        partition = number % 2 if topic == "orders" else 0
        error = ProcessingError("bad", topic, partition, number, differs.get("operator", "map"))
        error.__cause__ = ValueError("no")
        headers = reason_headers(error, "shop", [("own", b"1"), (REPLAYED, b"dead/0/99")])
        key, where = b"k%d" % number, TopicPartition("dead", number % 2)
        self.log.append(where, [key], [b"v%d" % number], [number], [headers])

    def letters(self) -> DeadLetters:
        made = DeadLetters(
            "dead",
            MemoryAdmin(self.log),
            lambda: MemorySource(self.log, headers=True),
            self.positions,
            ManualClock(0),
        )
        made.open()
        return made

    def replay(
        self, chosen: LetterFilter = EVERY, to: str | None = None, limit: int | None = None
    ) -> ReplayResult:
        sink = Sink(MemorySink(self.log), self.positions.fuse)
        return self.letters().replay(chosen, sink, to=to, limit=limit)

    def given(self) -> Counter[bytes]:
        """The keys of the records in the topics that failed."""
        places = [
            TopicPartition("orders", 0),
            TopicPartition("orders", 1),
            TopicPartition("users", 0),
        ]
        return Counter(one.key or b"" for tp in places for one in self.log.records(tp))


def test_records_come_back_as_they_were_with_the_mark_of_their_letter() -> None:
    scene = Scene()
    assert scene.replay() == ReplayResult({"orders": 4, "users": 2}, {})
    (record, *_) = scene.log.records(TopicPartition("orders", 1))
    assert (record.key, record.value, record.timestamp) == (b"k1", b"v1", 1)
    assert record.headers == [("own", b"1"), (REPLAYED, b"dead/1/0")]
    assert scene.given() == Counter(b"k%d" % n for n in range(6))
    assert scene.replay() == ReplayResult({}, {})


STEPS = range(1, 60)


@pytest.mark.parametrize("chosen", [EVERY, LetterFilter({"topic": "orders"})], ids=["all", "some"])
def test_wherever_a_replay_is_killed_no_record_comes_back_twice(chosen: LetterFilter) -> None:
    killed = 0
    for step in STEPS:
        scene = Scene()
        scene.positions.fuse = Fuse(step)
        try:
            scene.replay(chosen)
        except Killed:
            killed += 1
        scene.positions.fuse = Fuse()
        scene.replay(chosen)
        wanted = 6 if chosen is EVERY else 4
        assert sum(scene.given().values()) == wanted, step
        assert set(scene.given().values()) == {1}, step
        scene.replay()
        assert scene.given() == Counter(b"k%d" % n for n in range(6)), step
    assert 10 < killed < len(STEPS)  # the last ones came to their end


def test_a_replay_that_is_killed_twice_gives_back_once() -> None:
    for step in range(1, 20):
        for second in range(1, 20):
            scene = Scene()
            for fuse in (Fuse(step), Fuse(second), Fuse()):
                scene.positions.fuse = fuse
                try:
                    scene.replay()
                except Killed:
                    continue
            assert scene.given() == Counter(b"k%d" % n for n in range(6)), (step, second)


def test_letters_are_chosen_limited_and_skipped() -> None:
    scene = Scene()
    assert scene.letters().plan(LetterFilter({"topic": "users"})).topics == {"users": 2}
    assert scene.replay(LetterFilter(partition=1), limit=1).count == 1
    assert scene.letters().skip(LetterFilter(since_ms=2, until_ms=4)) == 2
    states = {letter.key: state for letter, state in scene.letters().read(EVERY, every=True)}
    assert states == {
        **dict.fromkeys((b"k1", b"k2", b"k3"), "handled"),
        **dict.fromkeys((b"k0", b"k4", b"k5"), "open"),
    }
    scene.replay()
    assert scene.given() == Counter((b"k0", b"k1", b"k4", b"k5"))


def test_what_cannot_be_given_back_is_named_and_stays() -> None:
    scene = Scene()
    scene.letter(7, "shop-x-repartition")
    scene.letter(9, "gone")
    result = scene.replay()
    assert result.unfit == {
        "its record is from shop-x-repartition, which only the application writes": 1,
        "there is no gone-0": 1,
    }
    left = [letter.key for letter, _ in scene.letters().read(EVERY)]
    assert left == [b"k7", b"k9"]
    assert scene.replay(to="users").topics == {"users": 2}
    scene.letter(11, "users")
    with pytest.raises(MissingTopicError, match="there is no topic lost"):
        scene.replay(to="lost")


@pytest.mark.parametrize(
    "topic", ["bank-streamlet-control", "bank-totals-changelog", "bank-x-repartition", "__offsets"]
)
def test_a_forged_letter_writes_to_no_topic_that_an_application_has_for_itself(topic: str) -> None:
    """Who may write letters, and no more, would have the operator write for him."""
    scene = Scene()
    for name in ("bank-streamlet-control", topic):
        if name not in MemoryAdmin(scene.log).topics():
            scene.log.create(name, 1)
    scene.letter(7, topic)
    why = f"its record is from {topic}, which only the application writes"
    assert scene.replay().unfit == {why: 1}
    assert scene.log.records(TopicPartition(topic, 0)) == []


def test_reasons_of_many_forged_letters_are_bounded() -> None:
    scene = Scene()
    for number in range(1, 1_100):
        scene.letter(2 * number, f"gone-{number}", operator="x" * 100_000)
    unfit = scene.letters().plan(EVERY).unfit
    assert len(unfit) == 1_001
    assert unfit["its record is from elsewhere"] == 99
    scene.letter(1, "no topic\n")
    assert "its headers do not say where its record was read" in scene.replay().unfit
    assert all(len(one.detail("operator")) <= 500 for one, _ in scene.letters().read(EVERY))


def test_a_noted_end_behind_the_topic_is_not_waited_for() -> None:
    scene = Scene()
    forged = Handled(0, doing=((0, 1 << 62),), ends=((TopicPartition("orders", 1), 1 << 62),))
    scene.positions.found = {TopicPartition("dead", 1): (0, forged.text)}
    assert scene.replay() == ReplayResult({"orders": 4, "users": 2}, {})


def test_positions_of_another_program_and_a_topic_that_is_not_there_are_refused() -> None:
    scene = Scene()
    scene.positions.found = {TopicPartition("dead", 0): (3, "{}")}
    with pytest.raises(StreamletError, match="committed by another program"):
        scene.letters()
    scene.log.delete("dead")
    with pytest.raises(MissingTopicError):
        scene.letters()


def test_a_range_that_goes_on_behind_what_was_read_stays_done() -> None:
    state = Handled(0, ((2, 9), (12, 13)))
    assert state.with_done([0, 2, 4], [0]) == Handled(5, ((5, 9), (12, 13)))
    assert state.with_done([0, 2, 4], []) == Handled(0, ((2, 9), (12, 13)))
    assert state.with_done([], []) == state
    assert Handled.of(0, state.text) == state
    assert [state.has(n) for n in (1, 2, 8, 9, 12)] == [False, True, True, False, True]


@pytest.mark.parametrize(
    "text",
    ["[", "[]", '{"done":[[3]],"doing":[],"ends":[]}', '{"done":[[5,3]],"doing":[],"ends":[]}'],
)
def test_a_text_that_is_none_of_ours_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Handled.of(0, text)
