"""The supervisor with real processes that play workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamlet.admin.dead_members import DeadMembers
from streamlet.admin.window import GroupWindow
from streamlet.clock import SystemClock
from streamlet.errors import StreamletError
from streamlet.hosting.fork_server import Launched
from streamlet.hosting.restarts import RestartPolicy
from streamlet.hosting.supervisor import Supervisor

#: Plays a worker: says that it is up, obeys orders, or does what its first order says.
WORKER = """
import json, os, subprocess, sys, time
fd = int(sys.argv[sys.argv.index("--events-fd") + 1])
say = lambda **event: os.write(fd, json.dumps(event).encode() + b"\\n")
orders = json.loads(sys.stdin.readline())
if orders.get("breaks"):
    say(event="broken", traceback="Traceback: a fault of ours, line " + orders["breaks"])
    sys.exit(1)
if orders.get("never_begins"):
    os._exit(orders["never_begins"])
say(event="began")
if orders.get("joins"):
    say(event="state", state="REBALANCING", tasks=[])
    say(event="member", member_id=f"first-{os.getpid()}")
    say(event="member", member_id="")
    say(event="member", member_id=f"id-{os.getpid()}")
say(up=os.getpid(), group=os.getpgid(0), session=os.getsid(0))
if orders.get("leaves_a_child"):
    late = "import os, select, sys; select.select([sys.stdin], [], [], 20); "
    late += "os.write(int(sys.argv[1]), b'{\\"late\\": 1}\\\\n')"
    subprocess.Popen(
        [sys.executable, "-c", late, str(fd)], pass_fds=(fd,), stderr=subprocess.DEVNULL
    )
def end(code=0, **more):
    say(**({"event": "failed", "exit_code": code, **more} if code else {"event": "finished"}))
    sys.exit(code)
if orders.get("outage"):
    end(1, passing=True)
if orders["member"] == orders.get("who", orders["member"]):
    if orders.get("answer"):
        say(event="ended", answer=orders["answer"])
    if orders.get("exit") is not None:
        end(orders["exit"], final=orders.get("final", False))
    if orders.get("leaves_and_fails"):
        say(event="member", member_id="")
        end(1)
    if orders.get("silent_exit") is not None:
        os._exit(orders["silent_exit"])
for line in sys.stdin:
    order = json.loads(line)
    if "drain" in order:
        say(event="leaving", told="drain", since_ms=order["drain"])
        if orders.get("crash") and not os.path.exists(orders["crash"]):
            open(orders["crash"], "w").close()
            end(1)
        if orders["member"] in orders.get("leaves", [0, 1]):
            say(event="ended", drained=True)
            end()
        continue
    say(told=order["stop"])
    if orders.get("silent_stop") is not None:
        os._exit(orders["silent_stop"])
    if not orders.get("deaf"):
        end()
say(told="closed")
end()
"""


class Removals(DeadMembers):
    """Notes what it is asked for, and that the process was reaped by then."""

    def __init__(self) -> None:
        super().__init__(_open_never, lambda: True)
        self.calls: list[tuple[object, ...]] = []

    def died(self, worker: int, member_id: str, *, replaced_at_once: bool) -> None:
        pid = int(member_id.partition("-")[2])
        assert not alive(pid), "it may still write"
        self.calls.append(("died", worker, pid, replaced_at_once))

    def succeeded(self, worker: int) -> None:
        self.calls.append(("succeeded", worker))

    def close(self, timeout_s: float) -> None:
        self.calls.append(("close",))


def _open_never() -> GroupWindow:
    raise AssertionError("nothing is to be removed")


class Events:
    """Collects what workers report and reacts to it."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, dict[str, Any]]] = []
        self.react: Any = None

    def __call__(self, member: int, event: dict[str, Any]) -> None:
        self.seen.append((member, event))
        if self.react is not None:
            self.react(member, event)

    def ups(self) -> list[int]:
        return [event["up"] for _, event in self.seen if "up" in event]


def launch() -> Launched:
    """A process that plays a worker, as the fork server starts it."""
    read, write = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, "--events-fd", str(write)],
        stdin=subprocess.PIPE,
        pass_fds=(write,),
        process_group=0,
    )
    os.close(write)
    return Launched(process, read)


def instance(
    events: Events,
    launch: Callable[[], Launched] = launch,
    count: int = 1,
    dead_members: DeadMembers | None = None,
    **orders: Any,
) -> Supervisor:
    return Supervisor(
        launch,
        orders,
        count,
        clock=SystemClock(),
        on_event=events,
        restart=RestartPolicy(first_ms=1, longest_ms=4, most=3, within_ms=60_000),
        dead_members=dead_members,
    )


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_graceful_stop_reaches_every_worker() -> None:
    events = Events()
    running = instance(events, count=2)
    events.react = lambda member, event: len(events.ups()) == 2 and running.stop()
    assert running.run() == 0
    assert [event["told"] for _, event in events.seen if "told" in event] == ["graceful"] * 2


def test_a_worker_that_keeps_failing_is_started_again_and_then_given_up() -> None:
    events = Events()
    assert instance(events, exit=1).run() == 1
    assert len(events.ups()) == 3


def test_refusals_that_pass_by_themselves_are_not_counted() -> None:
    """A broker that is away for long makes worker after worker fail."""
    events = Events()
    running = instance(events, outage=True)
    events.react = lambda member, event: len(events.ups()) == 6 and running.stop()
    running.run()
    assert len(events.ups()) == 6


def test_each_restart_says_how_many_there_will_be(caplog: pytest.LogCaptureFixture) -> None:
    events = Events()
    assert instance(events, exit=1, who=0).run() == 1
    said = [message for message in caplog.messages if message.startswith("worker 0")]
    assert [one.partition(",")[2].partition(")")[0].strip() for one in said[:2]] == [
        "failure 1 of 3 within 60 s",
        "failure 2 of 3 within 60 s",
    ]
    assert said[2] == "worker 0 failed 3 times (exit code 1), giving up"


def test_a_killed_worker_is_started_again() -> None:
    events = Events()
    running = instance(events)

    def react(member: int, event: dict[str, Any]) -> None:
        if "up" in event and len(events.ups()) == 1:
            os.kill(event["up"], signal.SIGKILL)
        elif "up" in event:
            running.stop()

    events.react = react
    assert running.run() == 0
    assert len(events.ups()) == 2


def test_the_others_stop_in_order_once_no_worker_can_be_started(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As without the fork server; the worker that runs ends with what it was told."""
    events, left = Events(), [launch]

    def none_left() -> Launched:
        if not left:
            raise StreamletError("no worker can be started")
        return left.pop()()

    assert instance(events, count=2, launch=none_left).run() == 1
    assert {"told": "graceful"} in [event for _, event in events.seen]
    assert "no worker can be started; stopping" in caplog.text


@pytest.mark.parametrize("code", [2, 3, 5, 6, 7])
def test_a_failure_that_a_restart_cannot_mend_ends_the_instance(code: int) -> None:
    events = Events()
    assert instance(events, count=2, exit=code, who=1).run() == code
    assert len(events.ups()) == 2


def test_a_worker_without_a_right_is_not_started_again_but_by_its_handler() -> None:
    """It would be refused six times."""
    events = Events()
    assert instance(events, count=2, exit=1, who=1, final=True).run() == 1
    assert len(events.ups()) == 2
    events = Events()
    assert instance(events, exit=1, final=True, answer="shutdown_client").run() == 1
    events = Events()
    running = instance(events, exit=1, final=True, answer="replace_thread")
    events.react = lambda member, event: len(events.ups()) == 2 and running.stop()
    running.run()
    assert len(events.ups()) == 2


def test_the_member_of_a_crashed_worker_is_removed_once_the_process_is_gone() -> None:
    """By its newest id, and it is said whether a successor comes at once."""
    events, removals = Events(), Removals()
    assert instance(events, dead_members=removals, joins=True, silent_exit=1).run() == 1
    first, second, third = events.ups()
    joined = [("succeeded", 0)] * 2
    assert removals.calls == [
        *joined,
        ("died", 0, first, True),
        *joined,
        ("died", 0, second, False),
        *joined,
        ("died", 0, third, False),
        ("close",),
    ]


def test_a_worker_that_left_the_group_before_it_failed_is_not_removed_again() -> None:
    events, removals = Events(), Removals()
    orders = {"joins": True, "leaves_and_fails": True}
    assert instance(events, dead_members=removals, **orders).run() == 1
    assert not [call for call in removals.calls if call[0] == "died"]


@pytest.mark.parametrize("code", [0, 2, 3, 5, 6])
def test_an_exit_without_a_report_is_a_crash_whatever_its_code(
    code: int, caplog: pytest.LogCaptureFixture
) -> None:
    """User code that calls ``os._exit`` decides neither about its worker nor about the others."""
    events = Events()
    assert instance(events, count=2, silent_exit=code, who=1).run() == 1
    assert len(events.ups()) == 1 + 3
    exits = [event["exit_code"] for member, event in events.seen if event.get("event") == "exited"]
    assert 0 in exits, "the other worker stopped in peace"
    assert exits.count(code or 1) == 3
    assert f"(exit code {code} without a report of its end" in caplog.text


def test_an_exit_without_a_report_while_it_stops_is_not_taken_for_a_graceful_stop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    events = Events()
    running = instance(events, silent_stop=0)
    events.react = lambda member, event: "up" in event and running.stop()
    assert running.run() == 1
    assert "worker 0 ended while it was stopping (exit code 0 without a report" in caplog.text


def test_the_second_interrupt_kills_workers_that_do_not_stop() -> None:
    events = Events()
    running = instance(events, deaf=True)

    def react(member: int, event: dict[str, Any]) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    events.react = react
    assert running.run() == 130
    assert not alive(events.ups()[0])


def test_a_worker_notices_that_its_supervisor_is_gone() -> None:
    """Its end of the pipe closes, whatever killed the supervisor."""
    events = Events()
    running = instance(events)

    def react(member: int, event: dict[str, Any]) -> None:
        if "up" in event:
            worker = running._workers[0]
            assert worker.process is not None
            assert worker.process.stdin is not None
            worker.process.stdin.close()

    events.react = react
    assert running.run() == 0
    assert {"told": "closed"} in [event for _, event in events.seen]


def drained(events: Events) -> list[int]:
    return [member for member, event in events.seen if event.get("drained")]


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
def test_a_signal_to_drain_reaches_every_worker_and_all_end_by_themselves(
    number: signal.Signals,
) -> None:
    events = Events()
    running = instance(events, count=2)
    running._drain_on_sigterm = True
    events.react = lambda member, event: len(events.ups()) == 2 and os.kill(os.getpid(), number)
    assert running.run() == 0
    assert sorted(drained(events)) == [0, 1]


def test_a_sigterm_after_one_that_drains_stops() -> None:
    events = Events()
    running = instance(events, leaves=[])
    running._drain_on_sigterm = True

    def react(member: int, event: dict[str, Any]) -> None:
        if "up" in event or event.get("told") == "drain":
            os.kill(os.getpid(), signal.SIGTERM)

    events.react = react
    assert running.run() == 0
    assert [event["told"] for _, event in events.seen if "told" in event] == ["drain", "graceful"]


def test_a_worker_that_starts_again_reads_the_mark_and_is_told_nothing(tmp_path: Path) -> None:
    """Told again, it would mark the instance although its mark was removed meanwhile."""
    events = Events()
    running = instance(events, crash=str(tmp_path / "crashed"))

    def react(member: int, event: dict[str, Any]) -> None:
        if "up" in event and len(events.ups()) == 1:
            os.kill(os.getpid(), signal.SIGUSR1)
        elif "up" in event:
            running.stop()

    events.react = react
    assert running.run() == 0
    assert [event["told"] for _, event in events.seen if "told" in event] == ["drain", "graceful"]


@pytest.mark.parametrize("reaped", [True, False])
def test_workers_that_had_left_come_back_when_the_instance_is_to_stay(reaped: bool) -> None:
    events = Events()
    running = instance(events, count=2, leaves=[0])

    def react(member: int, event: dict[str, Any]) -> None:
        if len(events.ups()) == 3:
            running.stop()
        elif "up" in event:
            if len(events.ups()) == 2:
                os.kill(os.getpid(), signal.SIGUSR1)
        elif drained(events) and sum("told" in seen for _, seen in events.seen) == 2:
            # The other worker learns of it while this one's process comes to its end, or after.
            worker = running._workers[0]
            if reaped and worker.process is not None:
                worker.process.wait()
                running._reap()
                running._reap()
            running._note(running._workers[1], {"event": "staying"})

    events.react = react
    assert running.run() == 0
    assert len(events.ups()) == 3


def test_the_end_of_a_worker_is_seen_also_when_a_child_of_its_lives_on() -> None:
    """The child has the pipe that the events came through, and says something much later."""
    events = Events()
    assert instance(events, exit=2, leaves_a_child=True).run() == 2
    assert [event for _, event in events.seen if "late" in event] == []
