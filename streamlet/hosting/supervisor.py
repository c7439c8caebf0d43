"""The supervisor: one instance, n worker processes.

Workers are forked by a process that has loaded streamlet, see ``streamlet.hosting.fork_server``.
Each has a pipe to us; when it closes, because we died, the worker stops by itself. Workers
do not see the terminal's Ctrl-C: the supervisor does, and tells them. A worker that fails is
started again with a growing pause; one that keeps failing, or fails for a reason that starting
again cannot mend, ends the instance. Workers of an instance that is to leave end by themselves.

A worker reports that it begins, its end, and the exit code that counts, through its pipe. An exit
without such a report is a crash, whatever the code of the process: user code may have called
``os._exit``. A fault of ours comes with its traceback, which is logged before anything else.
It reports its member id too, so that a crashed worker's member is removed from the group.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
from collections.abc import Callable, Iterator
from itertools import count, islice
from types import FrameType
from typing import Any

import attrs

from streamlet.admin.dead_members import DeadMembers
from streamlet.clock import Clock
from streamlet.errors import FINAL_CODES, StreamletError
from streamlet.hosting.fork_server import Launched, close_stdin
from streamlet.hosting.requests import HostRequests
from streamlet.hosting.restarts import RestartPolicy, how_ended
from streamlet.hosting.worker_process import WorkerProcess
from streamlet.logs import get_logger
from streamlet.signals import handled

log = get_logger(__name__)

#: How long the end waits for removals of dead members, s.
REMOVALS_S = 2.0

#: What a signal wakes us with: interrupt, terminate, drain.
_LETTERS: dict[int, bytes] = {signal.SIGINT: b"i", signal.SIGTERM: b"t", signal.SIGUSR1: b"d"}

#: Events of workers that concern the supervisor alone.
_OURS = ("began", "broken")


@attrs.define(eq=False)
class Supervisor:
    """Runs worker processes until they are stopped, or have ended by themselves.

    Args:
        launch: starts the process of a worker.
        orders: each worker's first order, a JSON object; ``member`` is added.
        count: how many workers.
        clock: for restarts.
        on_event: gets ``(member, event)`` for what a worker reports of its work, and an event
            ``exited`` of ours with its ``exit_code``, 0 only for a reported end, when its process
            ended.
        restart: when to give up.
        stop_timeout_ms: how long a graceful stop may take before the workers are killed.
        drain_on_sigterm: whether a first SIGTERM means what SIGUSR1 means.
        earlier: takes the signals that come before ``run`` does.
        dead_members: removes the members of crashed workers from the group; None: their sessions
            time out, or their successors have the same static ids.
        wanted: how many workers an operator wants, None: as they are; asked about once a second.
        on_count: called with how many there are once that has changed.
    """

    _launch: Callable[[], Launched]
    _orders: dict[str, Any]
    _count: int
    _clock: Clock
    _on_event: Callable[[int, dict[str, Any]], None]
    _restart: RestartPolicy = attrs.field(factory=RestartPolicy)
    _stop_timeout_ms: int = 90_000
    _drain_on_sigterm: bool = False
    _earlier: HostRequests | None = None
    _dead_members: DeadMembers | None = None
    _wanted: Callable[[], int | None] = lambda: None
    _on_count: Callable[[int], None] = lambda count: None
    #: Since when the instance was to be drained by a signal, wall-clock ms.
    _drain_since_ms: int | None = attrs.field(default=None, init=False)
    #: Whether a worker has said that the instance is marked: who starts now reads it himself.
    _marked: bool = attrs.field(default=False, init=False)
    _stopping_since: int | None = attrs.field(default=None, init=False)
    _interrupts: int = attrs.field(default=0, init=False)
    _workers: list[WorkerProcess] = attrs.field(init=False)
    _wake_read: int = attrs.field(init=False)
    _wake_write: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._workers = [WorkerProcess(member) for member in range(self._count)]
        self._wake_read, self._wake_write = os.pipe()

    def run(self) -> int:
        """Run to the end; the exit code for the command line.

        The first SIGINT or SIGTERM stops gracefully, a second SIGINT at once (130). SIGUSR1 marks
        the instance to leave: it ends once its tasks are handed over.
        """
        with self._signals():
            try:
                while not self._finished():
                    self._obey_earlier()
                    self._resize()
                    self._start_due()
                    self._wait()
                    self._reap()
                    self._check_stop()
            finally:
                self._kill_all()
                self._release()
        if self._interrupts > 1:
            return 130
        if self._dead_members is not None:
            self._dead_members.close(REMOVALS_S)
        return max((worker.exit_code or 0 for worker in self._workers), default=0)

    def stop(self) -> None:
        """Ask for a graceful stop; safe from a signal handler or another thread."""
        os.write(self._wake_write, b"s")

    # Signals.

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        def interrupted(number: int, frame: FrameType | None) -> None:
            os.write(self._wake_write, _LETTERS[number])

        try:
            with handled(dict.fromkeys(_LETTERS, interrupted)):
                yield
        finally:
            os.close(self._wake_read)
            os.close(self._wake_write)

    def _signalled(self) -> None:
        for mark in os.read(self._wake_read, 64):
            if mark == ord("i"):
                self._interrupts += 1
            if self._interrupts > 1:
                log.warning("stopping now: nothing since the last commit is kept")
                self._kill_all()
            elif mark == ord("d") or (mark == ord("t") and self._drains_first()):
                self._begin_drain()
            elif self._stopping_since is None:
                log.info("stopping: finishing the batch, committing, leaving the group")
                self._begin_stop()

    def _obey_earlier(self) -> None:
        """Obey what came just before ``run`` took the signals."""
        if self._earlier is None:
            return
        if self._earlier.asked.is_set() and self._stopping_since is None:
            self._begin_stop()
        elif self._earlier.drain.is_set():
            self._earlier.drain.clear()
            self._begin_drain()

    def _drains_first(self) -> bool:
        return self._drain_on_sigterm and self._drain_since_ms is None

    def _begin_drain(self) -> None:
        """Have the workers mark the instance; what follows is theirs."""
        if self._stopping_since is None and self._drain_since_ms is None:
            log.info("leaving: handing all tasks over, then ending")
            self._drain_since_ms = self._clock.wall_ms()
            for worker in self._workers:
                worker.tell({"drain": self._drain_since_ms})

    def _begin_stop(self) -> None:
        self._stopping_since = self._clock.now_ms()
        for worker in self._workers:
            worker.tell({"stop": "graceful"})

    def _check_stop(self) -> None:
        since = self._stopping_since
        if since is not None and self._clock.now_ms() - since > self._stop_timeout_ms:
            log.error("workers did not stop in %d ms, killing them", self._stop_timeout_ms)
            self._kill_all()

    # Processes.

    def _resize(self) -> None:
        """Add workers, or have the last ones end, as an operator wants it."""
        wanted = self._wanted()
        kept = [worker for worker in self._workers if not worker.removed]
        leaves = self._stopping_since is not None or self._drain_since_ms is not None
        if wanted is None or wanted == len(kept) or leaves or self._marked:
            return
        taken = {worker.member for worker in self._workers}
        free = (number for number in count() if number not in taken)
        self._workers += map(WorkerProcess, islice(free, max(0, wanted - len(kept))))
        gone = sorted(kept, key=lambda worker: worker.member)[wanted:]
        for worker in gone:
            worker.removed = True
            worker.tell({"stop": "graceful", "leave": True})
        log.info("%d workers are wanted, not %d", wanted, len(kept))
        self._orders["members"] = wanted
        self._on_count(wanted)
        self._forget_removed()

    def _forget_removed(self) -> None:
        """Forget workers that were to end for good, and have."""
        for worker in [one for one in self._workers if one.removed and one.process is None]:
            self._workers.remove(worker)
            self._on_event(worker.member, {"event": "removed"})

    def _finished(self) -> bool:
        if self._stopping_since is not None:
            return all(worker.process is None for worker in self._workers)
        return all(worker.exit_code is not None for worker in self._workers)

    def _start_due(self) -> None:
        if self._stopping_since is not None:
            return
        now = self._clock.now_ms()
        for worker in self._workers:
            if worker.process is None and worker.exit_code is None and worker.start_at_ms <= now:
                self._start(worker)

    def _start(self, worker: WorkerProcess) -> None:
        try:
            launched = self._launch()
        except OSError as error:  # no descriptor is free
            pause = worker.pause_ms = self._restart.no_room_ms(worker.pause_ms)
            worker.start_at_ms = self._clock.now_ms() + pause
            text = "worker %d cannot start (%s), trying again in %d ms"
            log.warning(text, worker.member, error.strerror, pause)
            return
        except StreamletError as error:
            log.error("%s; stopping", error)
            worker.exit_code = 1
            self._begin_stop()
            return
        worker.process, worker.events = launched.process, launched.events
        worker.unread, worker.passing, worker.drained = b"", False, False
        worker.reported, worker.member_id, worker.answer, worker.began = None, "", None, False
        worker.started_ms = self._clock.now_ms()
        worker.tell({**self._orders, "member": worker.member})
        if self._drain_since_ms is not None and not self._marked:
            worker.tell({"drain": self._drain_since_ms})
        log.info("worker %d started (pid %d)", worker.member, worker.process.pid)

    def _wait(self) -> None:
        """Sleep until a signal, an event, the end of a worker, or the next restart."""
        pipes = [worker.events for worker in self._workers if worker.events >= 0]
        now = self._clock.now_ms()
        due = [w.start_at_ms - now for w in self._workers if w.process is None]
        due += [0 for w in self._workers if w.process is not None and not w.alive]
        timeout = min([1_000, *(max(0, ms) for ms in due)]) / 1000
        readable, _, _ = select.select([self._wake_read, *pipes], [], [], timeout)
        if self._wake_read in readable:
            self._signalled()
        for worker in self._workers:
            if worker.events in readable:
                self._read_events(worker)

    def _read_events(self, worker: WorkerProcess) -> None:
        chunk = os.read(worker.events, 65_536)
        if not chunk:
            os.close(worker.events)
            worker.events = -1
            if worker.process is not None:
                worker.process.wait()
            return
        *lines, worker.unread = (worker.unread + chunk).split(b"\n")
        for line in lines:
            event = json.loads(line)
            worker.passing, worker.refused = event.get("passing", False), event.get("final", False)
            self._note(worker, event)
            if event.get("event") not in _OURS:
                self._on_event(worker.member, event)

    def _note(self, worker: WorkerProcess, event: dict[str, Any]) -> None:
        """Take what concerns us of what a worker reports."""
        match event.get("event"):
            case "leaving":
                self._marked = True
            case "staying":
                self._marked, self._drain_since_ms = False, None
                for gone in self._workers:  # those that had left already are wanted again
                    if gone.exit_code == 0:
                        gone.drained, gone.exit_code = False, None
            case "ended":
                worker.drained = event.get("drained", False)
                worker.answer = event.get("answer")
            case "member":
                worker.member_id = event["member_id"]
                if worker.member_id and self._dead_members is not None:
                    self._dead_members.succeeded(worker.member)
            case "began":
                worker.began = True
            case "broken":
                if event["traceback"] != worker.broken:  # once, not at each restart
                    worker.broken = event["traceback"]
                    log.error(
                        "worker %d failed by a fault of streamlet's own, please report it:\n%s",
                        worker.member,
                        worker.broken.rstrip(),
                    )
            case "failed":
                worker.reported = event["exit_code"]
            case "finished":
                worker.reported = 0
            case _:
                pass

    def _reap(self) -> None:
        for worker in self._workers:
            process = worker.process
            returncode = None if process is None else process.poll()
            if process is None or returncode is None:
                continue
            if worker.events >= 0:  # say what it said last before saying that it ended
                if select.select([worker.events], [], [], 0)[0]:
                    self._read_events(worker)
                    continue
                os.close(worker.events)  # a process that it left behind keeps the other end open
                worker.events = -1
            close_stdin(process)
            worker.process = None
            code = (returncode or 1) if worker.reported is None else worker.reported
            self._on_event(worker.member, {"event": "exited", "exit_code": code})
            how = how_ended(worker.reported, returncode, began=worker.began)
            if worker.removed:
                worker.exit_code = 0
            else:
                self._ended(worker, code, how)
            self._take_out(worker)
        self._forget_removed()

    def _ended(self, worker: WorkerProcess, code: int, how: str) -> None:
        now = self._clock.now_ms()
        if code == 0 and worker.drained and not self._marked and self._stopping_since is None:
            # It left, and then the instance was to stay.
            worker.pause_ms, worker.start_at_ms = 0, now
            return
        final = worker.reported in FINAL_CODES or worker.answer == "shutdown_client"
        final = final or (worker.refused and worker.answer != "replace_thread")
        if code == 0 or final or self._stopping_since is not None:
            worker.exit_code = 1 if worker.reported is None else code
            if final and self._stopping_since is None:
                self._begin_stop()
            elif worker.reported is None and self._interrupts < 2:
                log.warning("worker %d ended while it was stopping (%s)", worker.member, how)
            return
        recent = self._restart.recent(worker.failures, now)
        worker.failures = recent if worker.passing else [*recent, now]
        counts = not worker.passing and worker.answer != "replace_thread"
        if counts and len(worker.failures) >= self._restart.most:
            log.error(
                "worker %d failed %d times (%s), giving up",
                worker.member,
                len(worker.failures),
                how,
            )
            worker.exit_code = 1
            self._begin_stop()
            return
        pause = worker.pause_ms = self._restart.pause_ms(
            len(worker.failures), now - worker.started_ms, passing=worker.passing
        )
        worker.start_at_ms = now + pause
        which = f"{len(worker.failures)} of {self._restart.most}"
        counted = f", failure {which} within {self._restart.within_ms // 1000} s" if counts else ""
        log.warning(
            "worker %d ended (%s%s), starting it again %s",
            worker.member,
            how,
            counted,
            f"in {pause} ms" if pause else "at once",
        )

    def _take_out(self, worker: WorkerProcess) -> None:
        """Have the member of a worker that did not leave removed; its process was reaped."""
        member_id, worker.member_id = worker.member_id, ""
        if self._dead_members is None or not member_id or self._interrupts > 1:
            return
        at_once = worker.exit_code is None and not worker.pause_ms
        self._dead_members.died(worker.member, member_id, replaced_at_once=at_once)

    def _kill_all(self) -> None:
        for worker in self._workers:
            if worker.process is not None and worker.alive:
                worker.process.kill()
                worker.process.wait()

    def _release(self) -> None:
        """Close the pipes of workers that did not end by themselves."""
        for worker in self._workers:
            if worker.process is not None:
                close_stdin(worker.process)
            if worker.events >= 0:
                os.close(worker.events)
                worker.events = -1
