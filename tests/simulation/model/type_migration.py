"""Changing the protocol type (F2, F4, F5; V13): a small model of its own.

All members leave the old group and join the new one with the tasks they hold kept open. D has
missed the order and stays behind alone; the old group gives it the task that A holds. A resumes in
place only if the last commit is its own (F4), and holds still meanwhile (F2).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import attrs

_INPUTS = 3
_GENERATIONS = 6
_NAMES = "AD"


@attrs.frozen
class MigrationRules:
    """What is compared before a held task is resumed, and what else holds.

    ``compares``: "everything" (offset, who and epoch), "offset" or "nothing".
    """

    compares: str = "everything"
    pauses: bool = True
    claims: bool = True
    new_epoch: bool = True


class Part(NamedTuple):
    """A or D. ``where``: old, out, new or dead. ``role``: "active", "held" or "" for none."""

    where: str
    role: str = ""
    position: int = 0
    covers: int = 0
    epoch: int = 0
    claimed: bool = False
    dirty: bool = False


class Migration(NamedTuple):
    """Both parts, the two groups and the log, which is (highest epoch, what it restores to)."""

    type: str
    members: frozenset[int]
    generation: int
    offset: int
    by: tuple[int, int]
    log: tuple[int, int]
    parts: tuple[Part, Part]

    def put(self, i: int, part: Part) -> Migration:
        """The same with one part changed."""
        parts = list(self.parts)
        parts[i] = part
        return self._replace(parts=tuple(parts))  # type: ignore[arg-type]


_START = Migration(
    "old",
    frozenset({0, 1}),
    1,
    1,
    (0, 1),
    (1, 1),
    (Part("old", "active", 1, 1, 1, True), Part("old")),
)


def _moves(state: Migration, rules: MigrationRules) -> Iterator[tuple[str, Migration]]:
    for i in (0, 1):
        if state.parts[i].where != "dead":
            yield from _leaving(state, i)
            yield from _joining(state, i, rules)
            yield from _working(state, i, rules)


def _leaving(state: Migration, i: int) -> Iterator[tuple[str, Migration]]:
    part, who = state.parts[i], _NAMES[i]
    without = state._replace(members=state.members - {i}, generation=state.generation + 1)
    if i == 1 and part.where in ("old", "new"):
        yield f"{who} crashes and is expired", without.put(i, Part("dead"))
    if part.where != "old":
        return
    if i not in state.members:
        yield f"{who} learns that it is unknown", state.put(i, Part("out"))
    elif (i == 0 or state.generation > 1) and not part.dirty:
        held = part._replace(where="out", role="held" if part.role == "active" else "")
        words = " and holds T open" if part.role == "active" else ""
        yield f"{who} leaves the old group{words}", without.put(i, held)


def _fresh(state: Migration, where: str, epoch: int) -> Part:
    return Part(where, "active", state.offset, state.log[1], epoch)


def _joining(state: Migration, i: int, rules: MigrationRules) -> Iterator[tuple[str, Migration]]:
    part, who = state.parts[i], _NAMES[i]
    if state.generation >= _GENERATIONS:
        return
    if i == 1 and part == Part("old") and state.members == {1}:
        alone = state.put(i, _fresh(state, "old", state.generation))
        yield f"{who}, alone in the old group, gets T at {state.offset}", alone
    if part.where != "out" or (state.type == "old" and state.members):
        return
    other = state.parts[1 - i]
    if other.where == "new" and 1 - i in state.members:
        if other.role == "active":
            joined = state._replace(members=state.members | {i})
            yield f"{who} joins the new group, where T is owned", joined.put(i, Part("new"))
        return
    generation = state.generation + 1
    joined = state._replace(type="new", members=state.members | {i}, generation=generation)
    if part.role == "held" and _is_mine(state, i, rules):
        epoch = generation if rules.new_epoch else part.epoch
        claimed = part.claimed and not rules.new_epoch
        resumed = part._replace(where="new", role="active", epoch=epoch, claimed=claimed)
        words = f"{who} joins the new group and resumes T at {part.position}"
        yield words, joined.put(i, resumed)
    else:
        words = f"{who} joins the new group and gets T at {state.offset}"
        yield words, joined.put(i, _fresh(state, "new", generation))


def _is_mine(state: Migration, i: int, rules: MigrationRules) -> bool:
    part = state.parts[i]
    same = state.offset == part.position
    whose = state.by == (i, part.epoch)
    return {"nothing": True, "offset": same, "everything": same and whose}[rules.compares]


def _working(state: Migration, i: int, rules: MigrationRules) -> Iterator[tuple[str, Migration]]:
    part, who = state.parts[i], _NAMES[i]
    runs = part.role == "active" or (part.role == "held" and not rules.pauses)
    if runs and part.position < _INPUTS:
        if rules.claims and not part.claimed:
            if i in state.members:
                claimed = state._replace(offset=part.position, by=(i, part.epoch))
                words = f"{who} claims T at {part.position} with epoch {part.epoch}"
                yield words, claimed.put(i, part._replace(claimed=True))
        else:
            covers = max(part.covers, part.position + 1)
            log = (part.epoch, covers) if part.epoch >= state.log[0] else state.log
            after = part._replace(position=part.position + 1, covers=covers, dirty=True)
            words = f"{who} processes input {part.position}, flushes with epoch {part.epoch}"
            yield words, state._replace(log=log).put(i, after)
    if part.role == "active" and i in state.members and part.dirty:
        committed = state._replace(offset=part.position, by=(i, part.epoch))
        after = part._replace(claimed=True, dirty=False)
        yield f"{who} commits {part.position}", committed.put(i, after)


def _broken(before: Migration, after: Migration) -> str:
    if after.offset < before.offset:
        return f"S1 the committed offset went back to {after.offset}"
    for i, part in enumerate(after.parts):
        if part.role != "active" or before.parts[i].role == "active" or i not in after.members:
            continue
        if part.position != after.offset:
            return f"S1 an active period starts at {part.position}, committed is {after.offset}"
        if part.covers < part.position:
            return f"S3 active at {part.position} with the state of {part.covers}"
    if all(p.role == "active" and i in after.members for i, p in enumerate(after.parts)):
        return "S2 both run T"
    if after.log[1] < after.offset:
        return f"S3 the changelog restores to {after.log[1]}, committed is {after.offset}"
    return ""


def explore_migration(rules: MigrationRules) -> tuple[str, list[str], int]:
    """The property broken ("" for none), the trace, and how many states there are."""
    parents: dict[Migration, tuple[Migration, str] | None] = {_START: None}
    queue = deque([_START])
    while queue:
        state = queue.popleft()
        for words, after in _moves(state, rules):
            if bad := _broken(state, after):
                return bad, [*_trace(parents, state), words], len(parents)
            if after not in parents:
                parents[after] = (state, words)
                queue.append(after)
    return "", [], len(parents)


def _trace(parents: dict[Migration, tuple[Migration, str] | None], state: Migration) -> list[str]:
    words: list[str] = []
    while (step := parents[state]) is not None:
        state, move = step
        words.append(move)
    return words[::-1]
