"""The moments of a simulation in which something changes that a viewer sees.

A moment has the members that are different from the moment before, each with its tasks; the
requests since then; and the rebalances and broken rules that are new, by their place in the result.
Commits and heartbeats alone make none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from streamlet.coordinator.commit_metadata import CommitMetadata
from streamlet.coordinator.messages import (
    JoinGroup,
    LeaveGroup,
    OffsetCommit,
    Request,
    SyncGroup,
)
from streamlet.tasks.task_record import OURS, TaskRecord, TaskStage
from streamlet.testing.simulation import events as ev
from streamlet.testing.simulation.counting import GROUP, task_of
from streamlet.testing.simulation.events import Event, Step
from streamlet.types import TaskId

if TYPE_CHECKING:
    from streamlet.testing.simulation.member import SimMember
    from streamlet.testing.simulation.run import Simulation


def step_texts(step: Step) -> list[str]:
    """The events of a step and what follows them, a line each, with the keys of the file."""
    texts = [_event_text(event) for event in step.events]
    if step.advance_ms:
        texts.append(f"advance_ms {step.advance_ms}")
    if step.settle_rounds is not None:
        texts.append(f"settle within {step.settle_rounds} rounds")
    return texts


def _event_text(event: Event) -> str:
    match event:
        case ev.Deploy(field, values):
            return f"{field} {_words(values)}"
        case ev.Lose(sender, request, nth, answer):
            which = "the answer to " if answer else ""
            return f"lose {which}{request} {nth} from {sender}"
        case ev.AddTasks(specs):
            return f"add_tasks {', '.join(spec.label for spec in specs)}"
        case _:
            return " ".join((event.key(), *_values(event)))


def _values(event: Event) -> Iterator[str]:
    for field in attrs.fields(type(event)):
        value = getattr(event, field.name)
        if field.name != "timeout_ms":
            yield _words(value)
        elif value is not None:
            yield f"within {value} ms"


def _words(value: object) -> str:
    match value:
        case Mapping():
            return ", ".join(f"{name}: {_words(one)}" for name, one in value.items())
        case tuple():
            return ", ".join(map(_words, value))
        case float():
            return f"{value:g}"
        case _:
            return str(value)


Json: TypeAlias = dict[str, Any]

#: Moments of a run, and requests of a moment, at most; a page says where there were more.
MOST_MOMENTS, MOST_REQUESTS = 5_000, 60
#: The step of the moment before the first one.
_START = -1

_ROLES = {
    **dict.fromkeys(OURS, "active"),
    TaskStage.WAITING: "pending",
    TaskStage.RELEASED: "released",
    TaskStage.HELD: "held",
}


class Moments:
    """Keeps the moments of a simulation that begins.

    Args:
        simulation: the one to watch, with the members of its ``start``.
    """

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._world = simulation.world
        self._moments: list[Json] = []
        self._left_out = 0
        #: What was seen last: of each member, of the group, and how many rounds and broken rules.
        self._members: dict[str, Json] = {}
        self._group: tuple[Any, ...] = ()
        self._step = _START
        self._rounds = self._broken = 0
        self._requests: list[Json] = []
        self._requests_left_out = 0
        self._look(_START)
        self._world.watch = self.look
        self._world.network.watch = self._sent

    def look(self) -> None:
        """Note a moment if something has changed since the last one."""
        self._look(len(self._simulation.rounds_to_stable))

    def playback(self, result: Mapping[str, Any]) -> Json:
        """The document of a page that plays the run: its moments, and ``result`` as ``--json``."""
        scenario = self._simulation.scenario
        instances = self._world.cluster.instances.values()
        return {
            "name": scenario.name,
            "steps": [step_texts(step) for step in scenario.steps],
            "instances": [[one.spec.name, list(one.spec.member_names)] for one in instances],
            "moments": self._moments,
            "left_out": self._left_out,
            "result": dict(result),
        }

    def _look(self, step: int) -> None:
        found = {member.name: self._member(member) for member in self._world.members}
        changed: dict[str, Json | None] = {
            name: one for name, one in found.items() if one != self._members.get(name)
        }
        changed |= dict.fromkeys(sorted(self._members.keys() - found.keys()))
        view, leader = self._world.coordinator.view(GROUP), self._world.leader()
        phase, generation = ("Empty", 0) if view is None else (str(view.state), view.generation)
        group = (phase, generation, None if leader is None else leader.name)
        rounds = len(self._world.coordinator.rounds)
        broken = len(self._world.checks.broken)
        same = group == self._group and rounds == self._rounds and broken == self._broken
        if same and not changed and step == self._step and self._moments:
            return
        if len(self._moments) >= MOST_MOMENTS:
            self._left_out += 1
            return
        self._moments.append(
            {
                "step": step,
                "now_ms": self._world.now_ms,
                "phase": phase,
                "generation": generation,
                "leader": group[2],
                "members": changed,
                "rounds": list(range(self._rounds, rounds)),
                "violations": list(range(self._broken, broken)),
                "requests": self._requests,
                "requests_left_out": self._requests_left_out,
            }
        )
        self._members, self._group, self._step = found, group, step
        self._rounds, self._broken = rounds, broken
        self._requests, self._requests_left_out = [], 0

    # -- members -------------------------------------------------------------------------------

    def _member(self, member: SimMember) -> Json:
        records = sorted(member.manager.records.items())
        return {
            "process": member.uid,
            "state": str(member.machine.view.state),
            "paused": member.paused,
            "stopping": member.worker.stopping,
            "leaving": member.instance.leaving is not None,
            "tasks": [self._task(task, record) for task, record in records],
        }

    def _task(self, task: TaskId, record: TaskRecord) -> Json:
        copy = record.copy
        role = _ROLES.get(record.stage) or str(record.stage if copy is None else copy.role)
        found: Json = {"task": self._world.cluster.label(task), "role": role}
        found["stage"] = str(record.stage)
        if copy is not None and record.stage not in OURS:
            found |= {"ready": copy.ready, "lag": copy.lag}
        if record.next_owner:
            found["to"] = self._world.name_of(record.next_owner)
        return found

    # -- requests ------------------------------------------------------------------------------

    def _sent(self, sender: SimMember, request: Request, lost: bool) -> None:
        for text in self._texts(request):
            if len(self._requests) >= MOST_REQUESTS:
                self._requests_left_out += 1
                continue
            self._requests.append(
                {
                    "now_ms": self._world.now_ms,
                    "from": sender.name,
                    "request": type(request).__name__,
                    "text": text,
                    "lost": lost,
                }
            )

    def _texts(self, request: Request) -> Iterator[str]:
        match request:
            case JoinGroup() | LeaveGroup():
                yield request.reason
            case SyncGroup():
                yield ""
            case OffsetCommit():
                for partition, (_, text) in sorted(request.offsets.items()):
                    metadata = CommitMetadata.from_text(text)
                    if metadata is not None and metadata.release_to is not None:
                        label = self._world.cluster.label(task_of(partition))
                        next_owner = self._world.name_of(metadata.release_to)
                        yield f"{label} is handed over to {next_owner}"
            case _:
                return
