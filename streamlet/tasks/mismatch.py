"""Compares a task's committed positions, logs and local state before the task begins.

And works out what becomes of a task where they disagree. Pure. What disagrees is either mended from
state that is exactly that of the commit, or it is a ``Mismatch``, and ``state.mismatch.policy``
decides. Histories of crashes never look like one: nothing is written to a changelog before a claim
is committed, or nothing of it counts (``targets.Targets``), a store is never ahead of the commit,
and an owner writes number n + 1 only after commit n was accepted. So positions were lost where
there is no commit and the changelog is not empty; they were set back where a record bears number n
+ 2 beside a commit of number n. State of an epoch before the commit's proves nothing: a decision
may have given it up.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import attrs

from streamlet.coordinator.commit_metadata import started
from streamlet.errors import PositionsMismatchError
from streamlet.logs import get_logger
from streamlet.state.entries import CommitEntry
from streamlet.state.task_state import TaskState
from streamlet.tasks.target import Target
from streamlet.types import NO_STATE, StateNumber, TaskId, TopicPartition

log = get_logger(__name__)

#: How often a task is given back to the group before the policy decides: at once, and once more
#: after a while, since the last owner may just be starting again.
MOST_OFFERS = 2


class MismatchKind(enum.StrEnum):
    """The kinds of disagreement between positions, changelogs and state."""

    POSITIONS = "positions"  # the committed positions are gone, foreign, or older than the state
    CHANGELOG = "changelog"  # a changelog lost records, and no local state equals the commit
    INPUT = "input"  # an input ends before its committed position


@attrs.frozen
class Mismatch:
    """One disagreement; ``reason`` names partitions and numbers."""

    task: TaskId
    kind: MismatchKind
    reason: str

    def error(self, application: str, more: str = "") -> PositionsMismatchError:
        """The error that stops the instance; ``more`` says why a policy could not help."""
        why = f" {more}" if more else ""
        return PositionsMismatchError(
            f"task {self.task}: {self.reason}.{why} Its state and its topics are left as they are. "
            "Set state.mismatch.policy=continue to keep the newest state and go on at the "
            "positions it belongs to, or state.mismatch.policy=reset to drop the task's state and "
            "begin by auto.offset.reset; or stop all instances and run: "
            f"streamlet reset {application}"
        )


def judge(task: TaskId, target: Target, state: TaskState) -> Target | Mismatch:
    """The target to restore to, or what disagrees.

    Where a changelog lost records but the local state equals the commit, the target says which
    changelogs are written again.
    """
    if target.decided:
        return target
    target = attrs.evolve(target, rewrite=frozenset())
    found = (
        _lost(task, target, state)
        or _ahead(task, target, state)
        or _foreign(task, target, state)
        or _input_lost(task, target)
    )
    if found is not None:
        return found
    lacking = lacks(target, state)
    if not lacking or target.limit in (None, NO_STATE):
        return target
    if state.state == target.limit and state.on_disk:
        return attrs.evolve(target, rewrite=frozenset(lacking))
    reason = "; ".join(lacking[tp] for tp in sorted(lacking))
    kept = f"the local state is of commit {tuple(state.state)}, not of {tuple(target.limit)}"
    return Mismatch(task, MismatchKind.CHANGELOG, f"{reason}; {kept}")


def copy_may_be_promoted(target: Target) -> bool:
    """True if nothing about the target asks for a look at the state that is on disk."""
    lost = target.limit is None and any(target.ends.values())
    short = any(
        at > target.ranges[tp].end for tp, at in target.offsets.items() if tp in target.ranges
    )
    return not (lost or short or (target.unmarked and target.limit not in (None, NO_STATE)))


def needs_entry(target: Target, state: TaskState) -> bool:
    """True if only commit entries tell whether an unmarked input is a new one."""
    if target.decided or not target.unmarked or target.limit in (None, NO_STATE):
        return False
    return target.recorded is None and _recorded(target, state) is None and bool(target.ends)


def lacks(target: Target, state: TaskState | None = None) -> dict[TopicPartition, str]:
    """The changelogs that do not hold what the commit or the local state relies upon, and why."""
    found = _short_of_commit(target)
    if state is None:
        return found
    remade = _remade(target, state)
    if target.limit in (None, state.state):
        found |= _short_of_state(target, state) | remade
    return {tp: remade.get(tp, reason) for tp, reason in found.items()}


def _short_of_commit(target: Target) -> dict[TopicPartition, str]:
    found = {}
    metadata, wholes = target.metadata, target.whole_from()
    for tp, end in target.ends.items():
        wanted = 0 if metadata is None else metadata.ends.get(tp, 0)
        whole = wholes.get(tp)
        start = target.starts.get(tp, 0)
        if end < wanted:
            found[tp] = f"{tp} ends at {end}, the commit was made when it ended at {wanted}"
        elif start > (whole or 0):
            found[tp] = f"{tp} begins at {start}, its records before that are gone"
        elif metadata is not None and metadata.rebuilding and whole is not None:
            found[tp] = f"{tp} lost records, and its state was not yet written again"
    return found


def _short_of_state(target: Target, state: TaskState) -> dict[TopicPartition, str]:
    return {
        tp: f"{tp} ends at {end}, the local state was built up to {state.positions[tp]}"
        for tp, end in target.ends.items()
        if state.positions.get(tp, 0) > end
    }


def _remade(target: Target, state: TaskState) -> dict[TopicPartition, str]:
    ids = target.topic_ids or {}
    known = state.topic_ids
    return {
        tp: f"topic {tp.topic} was created again"
        for tp in target.ends
        if known.get(tp.topic) and ids.get(tp.topic) and known[tp.topic] != ids[tp.topic]
    }


def _lost(task: TaskId, target: Target, state: TaskState) -> Mismatch | None:
    if target.limit is not None or not state.stores.keys() - state.plain:
        return None
    ranges = [target.ranges[tp] for tp in target.offsets if tp in target.ranges]
    if ranges and all(one.remade for one in ranges):  # brokers delete positions with their topic
        log.warning(
            "task %s keeps its state, and begins with the first records of its inputs", task
        )
        return None
    proofs = [f"{tp} ends at {end}" for tp, end in sorted(target.ends.items()) if end > 0]
    if state.state != NO_STATE:
        proofs.append(f"the local state is of commit {tuple(state.state)}")
    if not proofs:
        return None
    proof = " and ".join(proofs)
    there = [f"{tp} at {at}" for tp, at in sorted(target.offsets.items()) if at >= 0]
    if there:
        what = f"positions ({', '.join(there)}) were committed by another tool"
        return Mismatch(
            task, MismatchKind.POSITIONS, f"{what}, which tells no state, although {proof}"
        )
    inputs = ", ".join(map(str, sorted(target.offsets)))
    what = f"the committed positions of {inputs} are lost"
    return Mismatch(task, MismatchKind.POSITIONS, f"{what}, although {proof}")


def _ahead(task: TaskId, target: Target, state: TaskState) -> Mismatch | None:
    reach = max(state.state, state.reach)
    if target.limit is None or target.claimed is None or reach <= target.limit:
        return None
    if reach.epoch < target.claimed:  # a reset or another decision left such state behind
        return None
    return Mismatch(
        task,
        MismatchKind.POSITIONS,
        f"{_committed(target)} belong to commit {tuple(target.limit)}, but the local state is of "
        f"commit {tuple(reach)}, which was accepted later: positions were set back",
    )


def set_back(task: TaskId, target: Target, met: StateNumber) -> Mismatch:
    """The mismatch that a changelog's record of this number proves."""
    assert target.limit is not None
    return Mismatch(
        task,
        MismatchKind.POSITIONS,
        f"{_committed(target)} belong to commit {tuple(target.limit)}, but a changelog has records "
        f"for commit {tuple(met)}: positions were set back",
    )


def _recorded(target: Target, state: TaskState) -> Mapping[TopicPartition, int] | None:
    return state.inputs if state.state == target.limit else None


def _foreign(task: TaskId, target: Target, state: TaskState) -> Mismatch | None:
    if not target.unmarked or target.limit in (None, NO_STATE):
        return None
    recorded = _recorded(target, state) or target.recorded or {}
    wrong = [
        f"{tp} at {target.offsets[tp]}, not {recorded[tp]}"
        for tp in sorted(target.unmarked & recorded.keys())
        if target.offsets[tp] != recorded[tp]
    ]
    if not wrong:
        return None
    what = f"positions ({', '.join(wrong)}) were lost or committed by another tool"
    assert target.limit is not None
    return Mismatch(
        task, MismatchKind.POSITIONS, f"{what}, but the state is of commit {tuple(target.limit)}"
    )


def _input_lost(task: TaskId, target: Target) -> Mismatch | None:
    short = [
        f"{tp} ends at {target.ranges[tp].end}, but position {at} is committed"
        for tp, at in sorted(target.offsets.items())
        if tp in target.ranges and at > target.ranges[tp].end
    ]
    if not short:
        return None
    return Mismatch(
        task, MismatchKind.INPUT, f"{'; '.join(short)}: the topic lost records or was created again"
    )


def _committed(target: Target) -> str:
    there = ", ".join(f"{tp} at {at}" for tp, at in sorted(target.offsets.items()))
    return f"the committed positions ({there})"


# -- what a policy makes of a target ---------------------------------------------------------------


def state_entry(state: TaskState) -> CommitEntry | None:
    """The local state with the input positions it belongs to; None where they are not known."""
    if state.inputs is None or state.state == NO_STATE or not state.on_disk:
        return None
    return CommitEntry(state.state, state.inputs, {})


def decided(policy: str, application: str, mismatch: Mismatch, target: Target) -> Target | None:
    """The target by ``state.mismatch.policy``; None: ``chosen`` makes it.

    Raises:
        PositionsMismatchError: the policy is to stop.
    """
    if policy == "reset":
        log.warning("task %s is reset: %s", mismatch.task, mismatch.reason)
        return begun_anew(target)
    if policy == "fail":
        raise mismatch.error(application)
    if mismatch.kind is MismatchKind.INPUT:
        reason = mismatch.reason
        log.warning("task %s goes on at the ends of its inputs: %s", mismatch.task, reason)
        return at_the_end(target)
    return None


def chosen(
    application: str,
    mismatch: Mismatch,
    target: Target,
    local: CommitEntry | None,
    entry: CommitEntry | None,
) -> Target:
    """The target under ``continue``, with what the local state and the changelogs tell.

    Raises:
        PositionsMismatchError: no state is known that the task could go on with.
    """
    found = continued(target, local, entry)
    if found is None:
        more = (
            "To continue is not possible: neither the local state nor the changelogs tell for "
            "certain which positions their state belongs to."
        )
        raise mismatch.error(application, more)
    log.warning(
        "task %s goes on with commit %s at %s: %s",
        mismatch.task,
        tuple(found.limit or NO_STATE),
        ", ".join(f"{tp} {at}" for tp, at in sorted(found.offsets.items())),
        mismatch.reason,
    )
    return found


def with_entry(target: Target, entry: CommitEntry | None) -> Target:
    """The target with the positions that a commit entry of its very commit tells, if any."""
    same = entry is not None and entry.state == target.limit
    return attrs.evolve(target, recorded=entry.inputs if entry and same else {})


def begun_anew(target: Target) -> Target:
    """The target under ``reset``: an empty state, and positions by ``auto.offset.reset``.

    No record in the changelogs counts, so that the first commit deletes every key there.
    """
    return attrs.evolve(
        target,
        offsets=dict.fromkeys(target.offsets, -1),
        first=None,
        limit=NO_STATE,
        metadata=None,
        decided=True,
        rewrite=frozenset(target.ends),
        moved=frozenset(target.offsets),
    )


def at_the_end(target: Target) -> Target:
    """The target under ``continue`` where inputs lost their ends: it goes on at those ends."""
    offsets = {
        tp: min(at, target.ranges[tp].end) if tp in target.ranges else at
        for tp, at in target.offsets.items()
    }
    moved = frozenset(tp for tp, at in offsets.items() if at != target.offsets[tp])
    return attrs.evolve(target, offsets=offsets, first=None, moved=moved)


def continued(
    target: Target, local: CommitEntry | None, entry: CommitEntry | None
) -> Target | None:
    """The target under ``continue``: the newest state with known positions; None if there is none.

    Local state is preferred to the commit behind it, which was perhaps never accepted: outputs
    before it could be missing. It is written to the changelogs as a whole, because without a commit
    that can be relied upon it is not known what they lack, or whether they were cut since the state
    was written. Else the changelogs are read from their starts.
    """
    newest = newer(local, entry)
    if newest is None:
        return None
    starts = {tp: newest.starts[tp.topic] for tp in target.ends if tp.topic in newest.starts}
    return attrs.evolve(
        target,
        offsets={tp: newest.inputs.get(tp, -1) for tp in target.offsets},
        first=None,
        limit=newest.state,
        metadata=None,
        unmarked=frozenset(),
        recorded=newest.inputs,
        decided=True,
        rewrite=frozenset(target.ends) if newest is local else frozenset(),
        rebuilt=started(target.rebuilt, starts),
        moved=frozenset(tp for tp, at in target.offsets.items() if newest.inputs.get(tp) != at),
    )


def newer(local: CommitEntry | None, entry: CommitEntry | None) -> CommitEntry | None:
    """The newer of the local state and the changelogs' newest entry, for ``continue``."""
    if local is None or entry is None:
        return local or entry
    behind = StateNumber(local.state.epoch, local.state.number + 1)
    return local if entry.state <= behind else entry
