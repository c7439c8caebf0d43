"""The time line of rebalances and hand-overs, from readings one after another; pure.

A reading sees what was there at its moment; what members report bears the time at which they saw
it. So the silence of a hand-over is that between two reports: the owner's that the task does not
run any more, and the new owner's that it does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import attrs

from streamlet.control.values import MemberProgress
from streamlet.web.live.values import LiveReading

#: Events that are remembered.
MOST_EVENTS = 200
#: Readings further apart than this, ms, do not tell who ran a task in between.
GAP_MS = 10_000


@attrs.define
class Move:
    """A task that goes from one member to another; times are wall-clock ms, None: not yet.

    ``stages`` are those of a hand-over, with when a reading first found each.
    """

    task: str
    source: str | None
    target: str | None
    began_ms: int
    stages: dict[str, int] = attrs.field(factory=dict)
    stopped_ms: int | None = None
    runs_ms: int | None = None
    ended_ms: int | None = None
    ended: str | None = None  # moved, given up, or not seen

    def as_dict(self) -> dict[str, Any]:
        """The event in the page's document."""
        silence = None
        if self.stopped_ms is not None and self.runs_ms is not None:
            silence = max(0, self.runs_ms - self.stopped_ms)
        return {
            "kind": "move",
            "task": self.task,
            "from": self.source,
            "to": self.target,
            "at_ms": self.began_ms,
            "ended_ms": self.ended_ms,
            "ended": self.ended,
            "stages": dict(self.stages),
            "silence_ms": silence,
        }


@attrs.define
class Timeline:
    """The events since the page is looked at, newest last."""

    _events: deque[Move | dict[str, Any]] = attrs.field(factory=lambda: deque(maxlen=MOST_EVENTS))
    _open: dict[str, Move] = attrs.field(factory=dict)
    #: The member that ran each task, and when it was last seen to.
    _ran: dict[str, tuple[str, int]] = attrs.field(factory=dict)
    _generation: int | None = None
    _rebalancing_ms: int | None = None
    _last_ms: int = 0

    def see(self, reading: LiveReading) -> None:
        """Take the next reading."""
        if reading.at_ms - self._last_ms > GAP_MS:
            self._forget()
        self._last_ms = reading.at_ms
        self._see_rebalance(reading)
        moving = {one["task"]: one for one in reading.status["handovers"]}
        owners = dict(_running(reading))
        for task, found in moving.items():
            move = self._move(task, found["from"], found["to"], reading.at_ms)
            move.stages.setdefault(found["stage"], reading.at_ms)
        for task, owner in owners.items():
            before = self._ran.get(task)
            if task not in self._open and before is not None and before[0] != owner:
                self._move(task, before[0], owner, before[1])
        for move in [*self._open.values()]:
            self._see_move(move, reading, moving, owners)
        self._ran |= {task: (owner, reading.at_ms) for task, owner in owners.items()}

    def _forget(self) -> None:
        """Begin again behind a time without readings."""
        for move in [*self._open.values()]:
            self._end(move, self._last_ms, "not seen")
        self._ran.clear()
        self._rebalancing_ms = None

    def _see_rebalance(self, reading: LiveReading) -> None:
        group = reading.status["group"]
        generation, state = group["generation"], group["state"]
        if state in ("PreparingRebalance", "CompletingRebalance"):
            self._rebalancing_ms = self._rebalancing_ms or reading.at_ms
            return
        if generation is None or generation == self._generation:
            return
        self._generation, last = generation, group["last_rebalance"]
        began_ms, self._rebalancing_ms = self._rebalancing_ms, None
        self._events.append(
            {
                "kind": "rebalance",
                "at_ms": last["at_ms"] or reading.at_ms,
                "generation": generation,
                "reason": last["reason"],
                "took_ms": None if began_ms is None else reading.at_ms - began_ms,
            }
        )

    def _move(self, task: str, source: str | None, target: str | None, at_ms: int) -> Move:
        move = self._open.get(task)
        if move is None or move.target != target:
            if move is not None:
                self._end(move, at_ms, "given up")
            move = self._open[task] = Move(task, source, target, at_ms)
            self._events.append(move)
        move.source = move.source or source
        return move

    def _end(self, move: Move, at_ms: int, how: str) -> None:
        move.ended_ms, move.ended = at_ms, how
        self._open.pop(move.task, None)

    def _see_move(
        self,
        move: Move,
        reading: LiveReading,
        moving: dict[str, Any],
        owners: dict[str, str],
    ) -> None:
        reports = {one.member: one for one in reading.view.progress.values()}
        source = None if move.source is None else reports.get(move.source)
        if move.stopped_ms is None and owners.get(move.task) != move.source:
            reported = None if source is None or _runs(source, move.task) else source.at_ms
            ran = self._ran.get(move.task)
            if reported is not None and reported >= move.began_ms:
                move.stopped_ms = reported
            elif ran is not None and ran[0] == move.source and source is None:
                move.stopped_ms = ran[1]  # it is gone, and said nothing
        if owners.get(move.task) == move.target and move.task not in moving:
            target = reports.get(move.target or "")
            move.runs_ms = reading.at_ms if target is None else target.at_ms
            if move.stopped_ms is None:
                ran = self._ran.get(move.task)
                move.stopped_ms = None if ran is None or ran[0] != move.source else ran[1]
            self._end(move, reading.at_ms, "moved")
        elif move.task not in moving and owners.get(move.task) == move.source:
            self._end(move, reading.at_ms, "given up")

    def events(self) -> list[dict[str, Any]]:
        """The events, newest first."""
        return [
            one.as_dict() if isinstance(one, Move) else dict(one) for one in reversed(self._events)
        ]


def _running(reading: LiveReading) -> Iterator[tuple[str, str]]:
    """Tasks with the members that have them, as they report it; else as they are assigned."""
    reports = {one.member_id: one for one in reading.view.progress.values()}
    for instance in reading.status["instances"]:
        for member in instance["members"]:
            report = reports.get(member["member_id"])
            for task in member["tasks"]:
                if task["role"] != "active":
                    continue
                said = None if report is None else report.task(task["task"])
                if said is None or said.stage == "running":
                    yield task["task"], member["member"]


def _runs(report: MemberProgress, task: str) -> bool:
    found = report.task(task)
    return found is not None and found.role == "active" and found.stage == "running"
