"""A member's end of the control topic, step by step over a log in memory."""

from __future__ import annotations

import attrs
import pytest

from streamlet.assignor.values import GroupState, Leaving, MemberState
from streamlet.clock import ManualClock
from streamlet.control.topic import ControlTopic, prepare_control
from streamlet.control.values import (
    ChangelogTypes,
    Description,
    Endpoint,
    Mark,
    MemberKey,
    MemberProgress,
    ResetEpoch,
    Shutdown,
    StoreServer,
)
from streamlet.control.view import ControlView
from streamlet.coordinator.events import Assigned, Lost
from streamlet.errors import DeliveryError, RefusedError, StreamletError
from streamlet.rebalance.values import Assignment
from streamlet.runtime.control_link import (
    INSTANCE_GONE_MS,
    MEMBER_GONE_MS,
    ControlLink,
)
from streamlet.testing.memory_ports import MemoryAdmin, MemoryLog, MemorySink, MemorySource

APP = "app"
ME, OTHER = MemberKey("p1", 0), MemberKey("p2", 0)
COUNTS = ChangelogTypes("app-counts-changelog", "counts", ("str", "int"))


def progress(member: MemberKey, at_ms: int = 0) -> MemberProgress:
    return MemberProgress(member.instance, member.number, "h-0", "id", at_ms)


def group(*members: MemberKey) -> GroupState:
    states = tuple(MemberState(f"id-{m.instance}", m.instance, m.number) for m in members)
    return GroupState((), states, 1, 0)


@attrs.define
class Bench:
    """A link whose thread's steps are taken by hand."""

    log: MemoryLog = attrs.field(factory=MemoryLog)
    clock: ManualClock = attrs.field(factory=ManualClock)
    told: list[Leaving | None] = attrs.field(factory=list)
    leave_timeout_ms: int | None = None
    reset: str = ""
    shutdown: str = ""
    description: Description | None = None
    link: ControlLink = attrs.field(init=False)
    sink: MemorySink = attrs.field(init=False)
    topic: ControlTopic = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        prepare_control(MemoryAdmin(self.log), APP)
        self.sink = MemorySink(self.log)
        self.topic = self.opened(self.sink)
        self.link = ControlLink(
            ME,
            "h1",
            lambda: self.topic,
            self.clock,
            leave_timeout_ms=self.leave_timeout_ms,
            on_leaving=self.told.append,
            reset=self.reset,
            shutdown=self.shutdown,
            types=(COUNTS,),
            description=self.description,
        )

    def opened(self, sink: MemorySink) -> ControlTopic:
        admin = MemoryAdmin(self.log)
        return ControlTopic(APP, MemorySource(self.log), sink, admin, self.clock)

    def step(self, ms: int = 0) -> None:
        """Some time passes, then the thread comes round."""
        self.clock.advance(ms)
        self.link._round(self.topic)

    def others(self) -> ControlTopic:
        """The topic as anybody else writes it."""
        return self.opened(MemorySink(self.log))

    def view(self) -> ControlView:
        """What anybody reads."""
        return self.others().read()


def test_marks_of_ours_are_told_and_those_of_others_are_not() -> None:
    bench = Bench()
    others = bench.others()
    bench.step()
    assert bench.told == []
    others.write(Mark("p2", 5), Mark("p1", 6, 60))
    bench.step()
    bench.step()
    assert bench.told == [Leaving(6, 60)]
    others.write(Mark("p1", 6, 50))
    bench.step()
    others.remove((Mark, "p1"))
    bench.step()
    assert bench.told == [Leaving(6, 60), Leaving(6, 50), None]


def test_a_mark_without_a_deadline_gets_that_of_the_settings() -> None:
    bench = Bench(leave_timeout_ms=100)
    bench.others().write(Mark("p1", 6))
    bench.step()
    assert bench.told == [Leaving(6, 106)]
    bench.others().write(Mark("p1", 6, unlimited=True))
    bench.step()
    assert bench.told == [Leaving(6, 106), Leaving(6)]


def test_a_mark_with_successors_is_passed_on_and_gives_way_to_an_own_one() -> None:
    """An instance that drains itself waits for no other."""
    bench = Bench()
    bench.others().write(Mark("p1", 6, successors=("p4",)))
    bench.step()
    assert bench.told == [Leaving(6, None, ("p4",))]
    bench.link.mark(9)
    bench.step()
    bench.step()
    assert bench.told == [Leaving(6, None, ("p4",)), Leaving(9)]


def reported(member: MemberKey, generation: int) -> MemberProgress:
    name = f"{member.instance}-{member.number}"
    return MemberProgress(member.instance, member.number, name, "id", 0, generation=generation)


def test_the_members_of_the_last_generation_are_known_by_name_though_they_left_since() -> None:
    bench = Bench()
    others = bench.others()
    third, fourth = MemberKey("p3", 0), MemberKey("p4", 0)
    others.write(reported(third, -1))
    bench.step()
    assert bench.link.last_members() == {}  # it has reported before its first join
    others.write(reported(fourth, 5), reported(OTHER, 5), reported(third, 4))
    bench.step()
    assert bench.link.last_members() == {OTHER: "p2-0", fourth: "p4-0"}
    bench.link.take(Assigned(5, "id", Assignment()))
    others.remove((MemberProgress, OTHER))
    bench.step()
    assert bench.link.last_members() == {OTHER: "p2-0", fourth: "p4-0"}
    bench.link.take(Assigned(6, "id", Assignment()))
    assert bench.link.last_members() == {}  # nothing was reported of that one yet
    others.write(reported(fourth, 6))
    bench.step()
    assert bench.link.last_members() == {fourth: "p4-0"}


def test_members_that_are_gone_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamlet.runtime.control_link.MOST_ENTRIES", 2)
    bench, names = Bench(), [MemberKey(name, 0) for name in "abcd"]
    for forged in names:
        bench.others().write(reported(forged, 5), reported(OTHER, 5))
        bench.step()
        bench.others().remove((MemberProgress, forged))
        bench.step()
    assert [*bench.link.last_members()] == [*names[-2:], OTHER]


def test_a_topic_that_is_missing_is_made() -> None:
    """Whoever runs a worker by hand has nobody who makes it beforehand."""
    bench = Bench()
    bench.log.delete(bench.topic.name)
    bench.link.publish(progress(ME))
    bench.step()
    assert bench.view().progress == {ME: progress(ME)}


def test_marks_that_are_there_are_known_before_anything_else_happens() -> None:
    bench = Bench()
    bench.others().write(Mark("p1", 6))
    assert not bench.link.wait_read(0)
    bench.step()
    assert bench.link.wait_read(0)
    assert bench.told == [Leaving(6)]


def test_the_newest_of_what_was_published_is_there_and_comes_back_when_removed() -> None:
    bench = Bench()
    endpoint = Endpoint("p1", 0, "h1-0", "localhost", 9_100)
    for entry in (progress(ME, 1), endpoint, progress(ME, 2)):
        bench.link.publish(entry)
    bench.step()
    assert bench.view().progress == {ME: progress(ME, 2)}
    assert bench.view().endpoints == {ME: endpoint}
    bench.others().remove((MemberProgress, ME))
    bench.step()
    bench.step()
    assert bench.view().progress == {ME: progress(ME, 2)}


def test_an_address_that_others_wrote_over_is_written_again() -> None:
    bench = Bench()
    server = StoreServer("p1", 0, "h1-0", "localhost", 8_080, "http")
    bench.link.publish(server)
    bench.step()
    bench.others().write(attrs.evolve(server, host="elsewhere"), progress(OTHER))
    bench.step()
    bench.step()
    assert bench.view().servers == {ME: server}


def test_what_a_process_before_us_left_behind_is_removed() -> None:
    bench = Bench()
    others = bench.others()
    others.write(progress(ME, 1), Endpoint("p1", 0, "h1-0", "localhost", 9_100), progress(OTHER))
    bench.link.publish(progress(ME, 2))
    bench.step()
    assert bench.view().progress == {ME: progress(ME, 2), OTHER: progress(OTHER)}
    assert bench.view().endpoints == {}


def test_it_marks_its_own_instance_but_leaves_a_mark_that_is_there() -> None:
    bench = Bench()
    bench.link.mark(7)
    bench.step()
    assert bench.view().marks == {"p1": Mark("p1", 7, name="h1")}
    bench.link.mark(9)
    bench.step()
    assert bench.view().marks["p1"].since_ms == 7
    assert bench.told == [Leaving(7)]


def test_what_cannot_be_written_is_written_later() -> None:
    bench = Bench()
    bench.link.publish(progress(ME, 1))
    bench.sink.fail("the broker is away")
    with pytest.raises(DeliveryError):
        bench.step()
    bench.link.publish(progress(ME, 2))
    bench.sink.fail(None)
    bench.step()
    assert bench.view().progress == {ME: progress(ME, 2)}


def test_the_leader_removes_what_is_about_nobody_after_some_time() -> None:
    bench = Bench()
    bench.link.publish(progress(ME))
    others = bench.others()
    others.write(progress(OTHER), Mark("p2", 1), Mark("p3", 1))
    bench.link.planned(group(ME, OTHER))
    bench.step()
    bench.step(MEMBER_GONE_MS)
    assert bench.view().progress.keys() == {ME, OTHER}

    bench.link.planned(group(ME))
    bench.step()
    bench.step(MEMBER_GONE_MS - 1)
    assert bench.view().progress.keys() == {ME, OTHER}
    bench.step(1)
    assert bench.view().progress.keys() == {ME}
    # A worker that is started anew is still bound by the mark of its instance.
    assert bench.view().marks.keys() == {"p2", "p3"}
    bench.step(INSTANCE_GONE_MS)
    assert bench.view().marks == {}


@pytest.mark.parametrize(
    "event",
    [Lost("expired"), Assigned(2, "id", Assignment()), Assigned(2, "id", Assignment(), True)],
)
def test_only_the_leader_removes_anything(event: Lost | Assigned) -> None:
    bench = Bench()
    bench.others().write(progress(OTHER))
    bench.link.planned(group(ME))
    bench.link.take(event)
    bench.step()
    bench.step(MEMBER_GONE_MS)
    leads = isinstance(event, Assigned) and event.leader
    assert (OTHER in bench.view().progress) is not leads


def test_who_comes_back_in_time_keeps_what_is_about_it() -> None:
    bench = Bench()
    bench.others().write(progress(OTHER))
    bench.link.planned(group(ME))
    bench.step()
    bench.step(MEMBER_GONE_MS - 1)
    bench.link.planned(group(ME, OTHER))
    bench.step()
    bench.link.planned(group(ME))
    bench.step(MEMBER_GONE_MS - 1)
    assert OTHER in bench.view().progress


def test_closing_takes_back_what_was_said_and_leaves_the_mark() -> None:
    """With the real thread: the mark is the instance's, which may have other workers."""
    bench = Bench()
    bench.link.publish(progress(ME))
    bench.link.mark(7)
    bench.link.start()
    assert bench.link.wait_read(10_000)
    bench.link.close()
    assert not bench.link._thread.is_alive()
    assert bench.view().progress == {}


def test_the_leader_says_once_that_others_would_plan_otherwise(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    others = bench.others()
    differs = (("num.standby.replicas", "1"),)
    bench.link.publish(attrs.evolve(progress(ME), plans_by=()))
    others.write(attrs.evolve(progress(OTHER), plans_by=differs))
    bench.step()
    bench.step()
    assert caplog.messages == [], "it does not lead"
    bench.link.planned(group(ME, OTHER))
    for at_ms in range(3):
        others.write(attrs.evolve(progress(OTHER, at_ms), plans_by=differs))
        bench.step()
    (said,) = caplog.messages
    assert "num.standby.replicas is the default here, 1 at h-0" in said
    others.write(attrs.evolve(progress(OTHER), plans_by=()))
    bench.step()
    others.write(attrs.evolve(progress(OTHER), plans_by=differs))
    bench.step()
    assert len(caplog.messages) == 2, "they agreed for a while"


def test_who_knows_of_the_last_reset_goes_on() -> None:
    last = ResetEpoch(2, 77)
    bench = Bench(reset=last.text)
    bench.link.check_reset(starting=True)
    bench.others().write(last)
    bench.step()
    bench.link.check_reset(starting=True)
    bench.link.check_reset()


def test_who_missed_a_reset_ends() -> None:
    """It was out of the group for long enough, or read the topic just before."""
    bench = Bench(reset=ResetEpoch(1, 7).text)
    others = bench.others()
    others.write(ResetEpoch(1, 7))
    bench.step()
    others.write(ResetEpoch(2, 0, pending=()))
    bench.step()
    bench.link.check_reset()  # it may be taken back: somebody is in the group
    with pytest.raises(RefusedError, match="under way"):
        bench.link.check_reset(starting=True)
    others.write(ResetEpoch(2, 9))
    bench.step()
    for starting in (True, False):
        with pytest.raises(RefusedError, match="start it again"):
            bench.link.check_reset(starting=starting)


def test_a_shutdown_is_for_the_instances_that_run_then() -> None:
    first, second = Shutdown("p2", "h2", 7, "boom"), Shutdown("p2", "h2", 8, "again")
    late, early = Bench(shutdown=first.text), Bench()
    for bench in (late, early):
        bench.others().write(first)
        bench.step()
    assert (late.link.shutdown, early.link.shutdown) == (None, first)
    late.others().write(second)
    late.step()
    assert late.link.shutdown == second


def test_an_announced_shutdown_outlasts_the_member_that_wrote_it() -> None:
    bench, entry = Bench(), Shutdown("p1", "h1", 7, "boom")
    bench.link.start()
    bench.link.publish(progress(ME))
    assert bench.link.announce(entry, 30_000)
    bench.link.close()
    assert bench.view() == ControlView(shutdown=entry)


def test_a_shutdown_that_cannot_be_written_in_time_is_reported() -> None:
    assert not Bench().link.announce(Shutdown("p1", "h1", 7), 1)  # its thread was not started


def test_a_thread_that_breaks_ends_the_worker() -> None:
    """Whoever marks the instance would wait for it for ever."""
    bench = Bench()

    def broken(timeout_ms: int) -> bool:
        raise RuntimeError("a bug")

    bench.topic.follow = broken  # type: ignore[method-assign]
    bench.link.check_reset()
    bench.link.start()
    assert bench.link.wait_read(30_000)
    bench.link._thread.join(300)
    with pytest.raises(StreamletError, match=r"the thread at the control topic broke: .*a bug"):
        bench.link.check_reset()
