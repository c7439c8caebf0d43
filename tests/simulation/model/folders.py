"""Commit numbers (N1 to N6): one task, several keys, two hosts with a folder each.

The group is reduced to what it guarantees: commits are taken from one process only, the one that
owns the task; who owns it changes at any moment, and whoever does not know that yet goes on writing
to the changelog (at-least-once fences no producer). Everything else is in detail: records are
delivered one by one, a commit is flush, OffsetCommit, answer, local write, and a process may die
between any two of these; it begins again on its folder, on an empty one, or on the other host.

S5: where an active period begins, the restored stores are exactly the fold of the inputs up to the
committed offset. Each input appends its own number to the value of its key, so that one counted
twice shows as well as one lost.

Which records count, and which position may be written down, is asked of the project's reader.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple

import attrs

from streamlet.types import NO_STATE, StateNumber

HOSTS: Final = (0, 1)
#: A key's value by key, sorted; absent keys have none.
Store = tuple[tuple[str, str], ...]


@attrs.frozen
class FolderRules:
    """Which rules hold; the defaults are the protocol.

    ``inputs`` are keys: a small letter appends to its key, the capital deletes it, "-" touches no
    store. ``compaction``: "none", "lagged" (records older than two commits) or "free".
    """

    inputs: str = "ab"
    done: int = 0  # so many of them are committed to begin with
    chunks: bool = False  # a restore writes after any record, not only at the end
    overlap: bool = False  # processing goes on while a commit is under way
    order: str = "flush, commit, write"  # N2; also "commit, flush, write", "flush, write, commit"
    ahead: bool = True  # a folder ahead of the commit is not believed
    reuse: bool = False  # after an unknown outcome the number is used for more than was sent
    epochs: bool = True  # C1
    numbers: bool = True  # N3
    carry: bool = True  # N4: a claim carries the old state forward
    rewrite: str = "all"  # N4: what was skipped is written again; also "values", "nothing"
    held: bool = True  # no position passes a skipped record that is not written again
    fence: bool = True  # V14: an active period's first flush writes to each changelog
    strangers: str = "rewritten"  # C3: before the commit; or "ignored"
    compaction: str = "none"
    follow: bool = False  # N5: a host without the task reads its changelog
    epoch_of: str = "position"  # what is noted beside a held position: its epoch, or "highest"


FAULTS: Final = ("crash", "expire", "wipe", "lose", "compact")


def budget(total: int, **faults: int) -> tuple[int, ...]:
    """How often each fault may happen, and how often all together."""
    assert faults.keys() <= set(FAULTS), faults
    return (*(faults.get(fault, 0) for fault in FAULTS), total)


class Entry(NamedTuple):
    """A changelog record."""

    epoch: int
    number: int
    key: str
    value: str | None


class Commit(NamedTuple):
    """What is committed."""

    offset: int
    epoch: int
    state: StateNumber


class Folder(NamedTuple):
    """What one host has on disk: stores and their number, next changelog offset, highest epoch."""

    store: Store = ()
    state: StateNumber = NO_STATE
    position: int = 0
    epoch: int = 0


class Batch(NamedTuple):
    """One commit's entries: ``begun`` and ``end`` are the changelog's ends before and after."""

    number: int
    offset: int
    entries: Store | tuple[tuple[str, str | None], ...]
    again: tuple[str, ...]
    begun: int
    delivered: int = 0
    end: int = 0


#: Where a process is. What nobody else can tell apart is one step.
RESTORING: Final = "restoring"
FOLLOWING: Final = "following"
PROMOTING: Final = "promoting"
IDLE: Final = ""
FLUSHING: Final = "flushing"
SENT: Final = "sent"  # to the coordinator
ACCEPTED: Final = "accepted"  # by it; not heard yet, so nothing is written locally


#: Records that a copy holds back, with their offsets.
Held = tuple[tuple[int, Entry], ...]


class Process(NamedTuple):
    """A process that runs the task, restores or follows it; ``commit`` is what it starts from.

    ``back``: records a copy holds back until it is known that they count.
    """

    commit: Commit
    store: Store
    position: int  # next changelog offset
    highest: int  # epoch met
    end: int = 0  # of the changelog, when the restore began
    skipped: tuple[tuple[str, int], ...] = ()
    back: Held = ()
    step: str = RESTORING
    epoch: int = 0
    claimed: bool = False
    number: int = 0
    offset: int = 0  # committed as far as it knows
    next: int = 0  # input
    dirty: tuple[str, ...] = ()
    again: tuple[str, ...] = ()
    held: int | None = None
    batch: Batch | None = None


class Site(NamedTuple):
    """One state. ``old``: changelog offsets before the last and the last but one flush."""

    commit: Commit
    budget: tuple[int, ...]
    log: tuple[Entry | None, ...] = ()
    owner: int | None = None
    folders: tuple[Folder, ...] = (Folder(), Folder())
    processes: tuple[Process | None, ...] = (None, None)
    old: tuple[int, int] = (0, 0)
    broken: str = ""


def affords(site: Site, fault: str) -> bool:
    """Whether the fault may still happen."""
    return site.budget[-1] > 0 and site.budget[FAULTS.index(fault)] > 0


def spent(site: Site, fault: str) -> Site:
    """The state with one fault less to come."""
    left = list(site.budget)
    left[FAULTS.index(fault)] -= 1
    left[-1] -= 1
    return site._replace(budget=tuple(left))


def with_process(site: Site, host: int, process: Process | None) -> Site:
    """The same with another process on a host."""
    processes = list(site.processes)
    processes[host] = process
    return site._replace(processes=tuple(processes))


def with_folder(site: Site, host: int, folder: Folder) -> Site:
    """The same with another folder on a host."""
    folders = list(site.folders)
    folders[host] = folder
    return site._replace(folders=tuple(folders))


def apply(store: Store, op: str, number: int) -> Store:
    """The stores after one more input."""
    values = dict(store)
    if op == op.upper():
        values.pop(op.lower(), None)
    else:
        values[op] = values.get(op, "") + str(number)
    return tuple(sorted(values.items()))


@cache
def fold(inputs: str, upto: int) -> Store:
    """What the stores must hold when the inputs below ``upto`` are committed."""
    store: Store = ()
    for number, op in enumerate(inputs[:upto]):
        store = apply(store, op, number)
    return store


def overlay(store: Store, entries: tuple[tuple[str, str | None], ...]) -> Store:
    """The stores with entries written over them."""
    values: dict[str, str | None] = dict(store)
    values.update(entries)
    return tuple(sorted((key, value) for key, value in values.items() if value is not None))


def hosts_and_processes(site: Site) -> Iterator[tuple[int, Process]]:
    """Every process that lives."""
    for host, process in enumerate(site.processes):
        if process is not None:
            yield host, process
