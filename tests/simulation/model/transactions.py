"""Commits by Kafka's transactions, one worker and its producer: outputs, state and positions.

A task with two inputs, the second written by another application's transaction. Each input record
leads to one output and one changelog record that holds how many records of each were counted. What
the broker does: the producer's epoch, one transaction at a time, markers that reach the partitions
one after the other, and requests that arrive long after their sender gave them up (KIP-890). The
epoch is all that a broker of transaction version 1 checks of them.

What must hold. X1: whenever no transaction is open, the outputs that readers see are exactly those
of the input records before the committed positions. X2: an active period begins with exactly the
state of those positions. Fencing of other members is in the model of hand-overs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

import attrs

Pair: TypeAlias = tuple[int, int]

OPEN: Final = "open"
COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
NONE: Final = ""

#: Offsets of each input, and how many there are. At offset 0 of the second is a record of another
#: application's transaction, at 1 that transaction's marker.
ENDS: Final[Pair] = (1, 3)
_FOREIGN: Final = (1, 0)
_MARKER: Final = (1, 1)


@attrs.frozen
class TxnRules:
    """Which rules hold; the defaults are the protocol."""

    #: After a request of unknown outcome a new producer epoch begins before anything else is sent.
    guard: bool = True
    #: So it does after a commit of which a request was sent twice, though its outcome is known.
    anew_after_two: bool = True
    #: An aborted transaction leads back to the last commit: positions, and dirty rows.
    rewind: bool = True
    drop_dirty: bool = True
    #: The local store is written once the commit is known.
    write_after: bool = True
    #: What was accepted and not written locally is read from the changelog.
    reads_tail: bool = True
    #: One transaction has the positions of all inputs that what it contains stems from.
    all_inputs: bool = True
    #: Nothing is processed from the flush until the commit is answered.
    still: bool = True
    #: Positions are offsets; markers take some.
    offsets: bool = True
    #: What is read: changelogs, and inputs.
    restores: str = "committed"  # or "uncommitted"
    reads: str = "committed"


#: Requests lost on the way to arrive late; crashes; deliveries that fail.
FAULTS: Final = ("delay", "crash", "fail")


class Request(NamedTuple):
    """A request that ends a transaction, or brings it positions: ``kind`` is "end" or "offsets"."""

    kind: str
    epoch: int
    positions: Pair


class Output(NamedTuple):
    """An output of an input record."""

    cause: Pair
    status: str


class Change(NamedTuple):
    """A changelog record: how many records of each input the state had counted."""

    state: Pair
    status: str


class Log(NamedTuple):
    """The broker: transaction, partitions, committed positions with the changelog's end."""

    epoch: int = 1
    stage: str = NONE  # OPEN, then COMMITTED or ABORTED until all markers are written
    pending: Pair | None = None
    unmarked: tuple[str, ...] = ()
    outputs: tuple[Output, ...] = ()
    changes: tuple[Change, ...] = ()
    positions: Pair = (0, 0)
    foreign: str = OPEN


class Worker(NamedTuple):
    """The process. ``step``: "", "flushed", "offsets", "in transaction", "end", "committed"."""

    alive: bool = True
    starting: bool = False
    epoch: int = 1
    at: Pair = (0, 0)  # processed
    known: Pair = (0, 0)  # committed
    state: Pair = (0, 0)
    step: str = NONE
    sent: Pair = (0, 0)
    twice: bool = False  # a request of the commit was sent again, and the first may arrive


class Disk(NamedTuple):
    """The local store, and how much of the changelog it contains."""

    state: Pair = (0, 0)
    read: int = 0


class World(NamedTuple):
    """One state of everything."""

    log: Log = Log()
    worker: Worker = Worker()
    disk: Disk = Disk()
    late: tuple[Request, ...] = ()
    left: tuple[int, ...] = (0, 0, 0)
    broken: str = ""


Move: TypeAlias = tuple[str, bool, World]


@attrs.frozen
class Transactions:
    """One worker that commits by transactions; a ``search.System``. ``left``: faults by kind."""

    rules: TxnRules
    left: tuple[int, ...] = (0, 0, 0)

    def start(self) -> World:
        """Nothing was processed."""
        return World(left=self.left)

    def moves(self, world: World) -> Iterator[Move]:
        """Every next step."""
        yield from _broker(world)
        yield from _worker(world, self.rules)
        yield from _faults(world, self.rules)

    def broken(self, world: World) -> str:
        """X1 and X2."""
        return world.broken or _seen(world.log)

    def is_good(self, world: World) -> bool:
        """All is processed, committed and on disk."""
        done = world.log.positions == ENDS and not world.log.stage
        whole = world.disk.state == _counted(ENDS, world.log)
        return done and whole and world.worker.step == NONE

    def can_recover(self, world: World) -> bool:
        """Always."""
        return True

    def rounds(self, world: World) -> int:
        """There are no rebalances."""
        return 0


def _seen(log: Log) -> str:
    """X1: what readers of committed records have seen is what the positions say."""
    if log.stage:
        return ""
    found = sorted(one.cause for one in log.outputs if one.status == COMMITTED)
    meant = [(part, at) for part in (0, 1) for at in range(log.positions[part])]
    meant = [cause for cause in meant if cause != _MARKER]
    if log.foreign != COMMITTED:
        meant = [cause for cause in meant if cause != _FOREIGN]
    return "" if found == meant else f"X1 positions {log.positions}, outputs of {found}"


# The broker.


def _broker(world: World) -> Iterator[Move]:
    log = world.log
    for number, one in enumerate(world.late):
        rest = world._replace(late=world.late[:number] + world.late[number + 1 :])
        yield f"late {one.kind} of epoch {one.epoch} arrives", False, _take(rest, one)[0]
    for part in log.unmarked if log.stage in (COMMITTED, ABORTED) else ():
        yield f"marker of the {part}", False, world._replace(log=_marked(log, part))
    if log.foreign == OPEN:
        for end in (COMMITTED, ABORTED):
            yield (
                f"the others' transaction: {end}",
                False,
                world._replace(log=log._replace(foreign=end)),
            )


def _take(world: World, one: Request) -> tuple[World, bool]:
    """Carry out a request that is of the present epoch; whether it was."""
    log = world.log
    if one.epoch != log.epoch or log.stage != OPEN:
        return world, False
    if one.kind == "offsets":
        log = log._replace(pending=one.positions, unmarked=("outputs", "changes", "positions"))
    else:
        log = log._replace(stage=COMMITTED)
    return world._replace(log=log), True


def _marked(log: Log, part: str) -> Log:
    """One partition learns what became of the transaction; the last one ends it."""
    left = tuple(other for other in log.unmarked if other != part)
    end = log.stage
    if part == "outputs":
        log = log._replace(outputs=_decided(log.outputs, end))
    elif part == "changes":
        log = log._replace(
            changes=tuple(c._replace(status=end) if c.status == OPEN else c for c in log.changes)
        )
    elif log.pending is not None and end == COMMITTED:
        log = log._replace(positions=log.pending)
    return log._replace(unmarked=left) if left else _over(log)


def _over(log: Log) -> Log:
    return log._replace(unmarked=(), stage=NONE, pending=None)


def _decided(outputs: tuple[Output, ...], end: str) -> tuple[Output, ...]:
    """Outputs with the open ones decided; aborted ones are seen by nobody."""
    decided = (o._replace(status=end) if o.status == OPEN else o for o in outputs)
    return tuple(sorted(one for one in decided if one.status != ABORTED))


# The worker.


def _worker(world: World, rules: TxnRules) -> Iterator[Move]:
    worker, log = world.worker, world.log
    if not worker.alive:
        yield "the worker starts", False, world._replace(worker=Worker(starting=True, epoch=0))
        return
    if worker.starting:
        yield from _begins(world, rules)
        return
    if worker.step in (NONE, "flushed") or not rules.still:
        yield from _processes(world, rules)
    match worker.step:
        case "flushed":
            covered = worker.at if rules.all_inputs else (worker.at[0], worker.known[1])
            sent = covered if rules.offsets else _counted(covered, log)
            if sent == worker.known:
                return
            asking = worker._replace(step="offsets", sent=sent)
            if not rules.write_after:
                world = world._replace(disk=Disk(worker.state, len(log.changes)))
            yield "sends positions", False, world._replace(worker=asking)
        case "offsets":
            yield from _sends(world, "offsets", "in transaction", rules)
        case "in transaction":
            yield "ends the transaction", False, world._replace(worker=worker._replace(step="end"))
        case "end":
            yield from _sends(world, "end", "committed", rules)
        case "committed" if not log.stage:
            disk = Disk(worker.state, len(log.changes))
            after = worker._replace(step=NONE, known=worker.sent, twice=False)
            written = world._replace(worker=after, disk=disk)
            anew = worker.twice and rules.anew_after_two
            yield "writes its store", False, _anew(written) if anew else written
        case _:
            pass


def _counted(at: Pair, log: Log) -> Pair:
    """How many records of each input lie before a position."""
    return at[0], (at[1] > 0 and log.foreign == COMMITTED) + (at[1] > 2)


def _processes(world: World, rules: TxnRules) -> Iterator[Move]:
    """Take one more record; what comes of it is delivered at once, in the open transaction."""
    worker, log = world.worker, world.log
    if log.stage not in (NONE, OPEN) or log.epoch != worker.epoch:
        return
    for part in (0, 1):
        at = worker.at[part]
        if at >= ENDS[part]:
            continue
        if (part, at) == _FOREIGN and log.foreign != COMMITTED:
            if rules.reads == "committed" and log.foreign == OPEN:
                continue
            if log.foreign == ABORTED:
                moved = worker._replace(at=(worker.at[0], 2))
                yield "passes what was aborted", False, world._replace(worker=moved)
                continue
        after = _next(worker.at, part)
        state = worker.state[0] + (part == 0), worker.state[1] + (part == 1)
        outputs = tuple(sorted((*log.outputs, Output((part, at), OPEN))))
        changed = log._replace(
            stage=OPEN,
            unmarked=log.unmarked or ("outputs", "changes"),
            outputs=outputs,
            changes=(*log.changes, Change(state, OPEN)),
        )
        step = "flushed" if worker.step == NONE else worker.step
        moved = worker._replace(at=after, state=state, step=step)
        yield f"processes {part}:{at}", False, world._replace(log=changed, worker=moved)


def _next(at: Pair, part: int) -> Pair:
    """Positions behind one more record; the marker behind the others' transaction is passed."""
    if part == 0:
        return at[0] + 1, at[1]
    return at[0], 2 if at[1] == 0 else at[1] + 1


def _sends(world: World, kind: str, then: str, rules: TxnRules) -> Iterator[Move]:
    """The request and its answer; refused, the transaction was aborted."""
    worker = world.worker
    after, done = _take(world, Request(kind, worker.epoch, worker.sent))
    if done:
        yield f"{kind}: accepted", False, after._replace(worker=worker._replace(step=then))
    else:
        yield f"{kind}: refused", False, _anew(world)


def _anew(world: World) -> World:
    """The producer is closed; all begins at the committed positions."""
    return world._replace(worker=Worker(starting=True, epoch=0))


def _begins(world: World, rules: TxnRules) -> Iterator[Move]:
    """A new producer epoch, which ends what was open; positions, then the changelog."""
    worker, log = world.worker, world.log
    if worker.epoch == 0:
        if log.stage == OPEN:
            fenced = log._replace(epoch=log.epoch + 1, stage=ABORTED)
            yield "a new epoch aborts what was open", False, world._replace(log=fenced)
        elif not log.stage:
            epoch = log.epoch + 1
            known = worker._replace(epoch=epoch)
            fenced = log._replace(epoch=epoch)
            yield f"epoch {epoch} begins", False, world._replace(log=fenced, worker=known)
        return
    yield "begins", False, _restored(world, rules)


def _restored(world: World, rules: TxnRules) -> World:
    log, worker = world.log, world.worker
    state = world.disk.state
    for change in log.changes[world.disk.read :] if rules.reads_tail else ():
        if change.status == COMMITTED or rules.restores == "uncommitted":
            state = change.state
    at = log.positions
    if state != _counted(at, log) and not world.broken:
        world = world._replace(broken=f"X2 begins at {at} with the state of {state}")
    active = Worker(epoch=worker.epoch, at=at, known=at, state=state)
    return world._replace(worker=active, disk=Disk(state, len(log.changes)))


# What may go wrong.


def _faults(world: World, rules: TxnRules) -> Iterator[Move]:
    worker = world.worker
    if not worker.alive or worker.starting:
        return
    delay, crash, fail = world.left
    if crash:
        left = world._replace(left=(delay, crash - 1, fail))
        yield "the worker crashes", True, left._replace(worker=Worker(alive=False))
    if fail and worker.step == "flushed":
        left = world._replace(left=(delay, crash, fail - 1))
        yield "a delivery fails, the transaction is aborted", True, _aborts(left, rules)
    if delay and worker.step in ("offsets", "end"):
        request = Request(worker.step, worker.epoch, worker.sent)
        left = world._replace(left=(delay - 1, crash, fail), late=(*world.late, request))
        after = _anew(left) if rules.guard else _aborts(left, rules)
        yield f"{request.kind} times out, still travelling", True, after
        again = left._replace(worker=worker._replace(twice=True))
        yield f"{request.kind} is sent again, the first still travelling", True, again


def _aborts(world: World, rules: TxnRules) -> World:
    """Abort in the same epoch, and go back to the last commit in memory."""
    worker, log = world.worker, world.log
    if log.stage != OPEN:
        return _anew(world)
    for part in log.unmarked:
        log = _marked(log._replace(stage=ABORTED), part)
    state = _counted(worker.known, log) if rules.drop_dirty else worker.state
    at = worker.known if rules.rewind else worker.at
    back = worker._replace(at=at, state=state, step=NONE)
    return world._replace(log=log, worker=back)
