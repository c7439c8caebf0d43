"""What may happen next at the two hosts; see ``folders``."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from streamlet.types import NO_STATE, StateNumber
from tests.simulation.model.folders import (
    ACCEPTED,
    FLUSHING,
    FOLLOWING,
    HOSTS,
    IDLE,
    PROMOTING,
    RESTORING,
    SENT,
    Batch,
    Commit,
    Entry,
    Folder,
    FolderRules,
    Process,
    Site,
    affords,
    apply,
    fold,
    hosts_and_processes,
    overlay,
    spent,
    with_folder,
    with_process,
)
from tests.simulation.model.folders_reader import compacted, read
from tests.simulation.model.folders_restore import (
    Move,
    assigned,
    follows,
    inexact,
    reads_on,
    restores,
)


@attrs.frozen
class Folders:
    """Two hosts by the rules, within a budget of faults; a ``search.System``."""

    rules: FolderRules
    budget: tuple[int, ...]

    def start(self) -> Site:
        """Host 0 runs the task with epoch 1; what is done was its first commit."""
        done = self.rules.done
        store, number = fold(self.rules.inputs, done), min(1, done)
        log = tuple(Entry(1, 1, key, value) for key, value in store)
        commit = Commit(done, 1, StateNumber(1, 1) if done else NO_STATE)
        process = Process(
            Commit(0, 1, NO_STATE),
            store,
            len(log),
            1,
            step=IDLE,
            epoch=1,
            claimed=True,
            number=number,
            offset=done,
            next=done,
        )
        site = Site(commit, self.budget, log, owner=0)
        folder = Folder(store, commit.state, len(log), number)
        return with_folder(with_process(site, 0, process), 0, folder)

    def moves(self, site: Site) -> Iterator[Move]:
        """Every next step."""
        yield from _faults(site, self.rules)
        for host in HOSTS:
            there = site.processes[host]
            if site.owner is None and (there is None or there.step == FOLLOWING):
                yield assigned(site, host, self.rules)
            if self.rules.follow and there is None and site.owner is not None:
                yield follows(site, host)
        for host, process in hosts_and_processes(site):
            if site.owner != host and process.step != FOLLOWING:
                words = f"host {host} learns that T is not its own any more"
                yield words, False, with_process(site, host, None)
            yield from _of_process(site, host, process, self.rules)

    def broken(self, site: Site) -> str:
        """S5, also for whoever would begin right now on an empty folder."""
        if site.broken:
            return site.broken
        commit, rules = site.commit, self.rules
        chunk = read(site.log, 0, len(site.log), 0, (), commit, rules)
        return inexact(overlay((), chunk.entries), commit, rules, "an empty folder would have")

    def is_good(self, site: Site) -> bool:
        """All inputs are committed and written down."""
        process = None if site.owner is None else site.processes[site.owner]
        done = site.commit.offset == len(self.rules.inputs)
        return done and process is not None and process.step == IDLE and not process.again

    def can_recover(self, site: Site) -> bool:
        """Always."""
        return True

    def rounds(self, site: Site) -> int:
        """Owners there were."""
        return site.commit.epoch


# Faults.


def _faults(site: Site, rules: FolderRules) -> Iterator[Move]:
    for host, process in hosts_and_processes(site):
        if affords(site, "crash"):
            dead = with_process(spent(site, "crash"), host, None)
            owner = None if site.owner == host else site.owner
            yield f"host {host} crashes", True, dead._replace(owner=owner)
        if affords(site, "lose") and process.step == ACCEPTED:
            lost = with_process(spent(site, "lose"), host, _after_unknown(process, rules))
            yield f"host {host} does not hear that it is committed", True, lost
    if affords(site, "expire") and site.owner is not None:
        words = f"the group gives up host {site.owner}, which lives"
        yield words, True, spent(site, "expire")._replace(owner=None)
    for host in HOSTS:
        gone = site.processes[host] is None and site.folders[host] != Folder()
        if affords(site, "wipe") and gone:
            wiped = with_folder(spent(site, "wipe"), host, Folder())
            yield f"the folder of host {host} is lost", True, wiped
    if affords(site, "compact") and rules.compaction != "none":
        below = len(site.log) if rules.compaction == "free" else site.old[0]
        log = compacted(site.log, below)
        if log != site.log:
            yield f"compaction below {below}", True, spent(site, "compact")._replace(log=log)


def _after_unknown(process: Process, rules: FolderRules) -> Process:
    """The same again; or, with that rule out, the number for whatever is dirty by then."""
    batch = process.batch
    assert batch is not None
    if not rules.reuse:
        return process._replace(step=SENT)
    keys = {*process.dirty, *(key for key, _ in batch.entries)}
    return process._replace(step=IDLE, batch=None, dirty=tuple(sorted(keys)))


# One commit.


def _of_process(site: Site, host: int, process: Process, rules: FolderRules) -> Iterator[Move]:
    if process.step == RESTORING:
        yield from restores(site, host, process, rules)
        return
    if process.step in (FOLLOWING, PROMOTING):
        yield from reads_on(site, host, process, rules)
        return
    if process.next < len(rules.inputs) and (rules.overlap or process.step == IDLE):
        yield _processes(site, host, process, rules)
    match process.step:
        case "":
            yield from _begins(site, host, process, rules)
        case "flushing":
            yield _goes_on_flushing(site, host, process, rules)
        case "sent":
            yield _commit_arrives(site, host, process, rules)
        case _:
            yield _hears(site, host, process, rules)


def _processes(site: Site, host: int, process: Process, rules: FolderRules) -> Move:
    op = rules.inputs[process.next]
    keys = process.dirty if op == "-" else tuple(sorted({*process.dirty, op.lower()}))
    store = process.store if op == "-" else apply(process.store, op, process.next)
    after = process._replace(store=store, dirty=keys, next=process.next + 1)
    words = f"host {host} processes input {process.next} ({op})"
    return words, False, with_process(site, host, after)


def _begins(site: Site, host: int, process: Process, rules: FolderRules) -> Iterator[Move]:
    if not process.claimed:
        yield _claims(site, host, process, rules)
        return
    if not (process.dirty or process.again or process.next > process.offset):
        return
    store = dict(process.store)
    keys = sorted({*process.dirty, *process.again})
    batch = Batch(
        process.number + 1,
        process.next,
        tuple((key, store.get(key)) for key in keys),
        process.again,
        len(site.log),
    )
    begun = process._replace(step=FLUSHING, batch=batch, dirty=())
    if rules.order.startswith("commit"):
        sent = with_process(site, host, begun._replace(step=SENT))
        yield f"host {host} sends commit ({process.epoch}, {batch.number})", False, sent
    else:
        yield _goes_on_flushing(site, host, begun, rules)


def _claims(site: Site, host: int, process: Process, rules: FolderRules) -> Move:
    if site.owner != host:
        words = f"host {host}'s claim is refused, it drops T"
        return words, False, with_process(site, host, None)
    state = process.commit.state if rules.carry else StateNumber(process.epoch, 0)
    commit = Commit(process.offset, process.epoch, state)
    after = with_process(site, host, process._replace(claimed=True))._replace(commit=commit)
    return f"host {host}'s claim of epoch {process.epoch} is accepted", False, after


def _goes_on_flushing(site: Site, host: int, process: Process, rules: FolderRules) -> Move:
    batch = process.batch
    assert batch is not None
    if batch.delivered == len(batch.entries):
        return _flush_is_over(site, host, process, rules)
    key, value = batch.entries[batch.delivered]
    entry = Entry(process.epoch, batch.number, key, value)
    batch = batch._replace(delivered=batch.delivered + 1)
    after = with_process(site, host, process._replace(batch=batch))
    words = f"host {host} writes {key}={value} as ({entry.epoch}, {entry.number})"
    return words, False, after._replace(log=(*site.log, entry))


def _flush_is_over(site: Site, host: int, process: Process, rules: FolderRules) -> Move:
    """Note where the changelog ends; what others wrote there is written again, until nobody did."""
    batch = process.batch
    assert batch is not None
    end = len(site.log)
    words = f"host {host} has flushed, the changelog ends at {end}"
    found = set() if rules.strangers == "ignored" else _strangers(site, process, end)
    if any(epoch > process.epoch for epoch, _ in found):
        return (
            f"{words}, a successor writes there: it drops T",
            False,
            with_process(site, host, None),
        )
    process = process._replace(position=end)
    if found:
        store = dict(process.store)
        keys = sorted({key for _, key in found})
        again = tuple((key, store.get(key)) for key in keys)
        batch = batch._replace(entries=(*batch.entries, *again))
        after = process._replace(batch=batch)
        return f"{words}, somebody wrote {keys}", False, with_process(site, host, after)
    step = ACCEPTED if rules.order.startswith("commit") else SENT
    after = process._replace(batch=batch._replace(end=end), step=step)
    site = with_process(site, host, after)
    if rules.order == "flush, write, commit":
        site = _written(site, host, after)
    return words, False, site


def _strangers(site: Site, process: Process, end: int) -> set[tuple[int, str]]:
    """Epochs and keys of what others wrote since we looked last."""
    entries = [entry for entry in site.log[process.position : end] if entry is not None]
    return {(entry.epoch, entry.key) for entry in entries if entry.epoch != process.epoch}


def _commit_arrives(site: Site, host: int, process: Process, rules: FolderRules) -> Move:
    batch = process.batch
    assert batch is not None
    words = f"host {host}'s commit of offset {batch.offset}"
    if site.owner != host:
        return f"{words} is refused, it drops T", False, with_process(site, host, None)
    state = StateNumber(process.epoch, batch.number)
    commit = Commit(batch.offset, process.epoch, state)
    step = FLUSHING if rules.order.startswith("commit") else ACCEPTED
    after = with_process(site, host, process._replace(step=step))
    old = (site.old[1], batch.begun) if batch.begun > site.old[1] else site.old
    after = after._replace(commit=commit, old=old)
    if batch.offset < site.commit.offset:
        after = after._replace(broken=f"S1 the committed offset went back to {batch.offset}")
    return f"{words}, ({state.epoch}, {state.number}), is accepted", False, after


def _hears(site: Site, host: int, process: Process, rules: FolderRules) -> Move:
    """The answer and the local write; a crash between the two is one before the answer."""
    batch = process.batch
    assert batch is not None
    if rules.order != "flush, write, commit":
        site = _written(site, host, process)
    after = process._replace(
        step=IDLE,
        batch=None,
        number=batch.number,
        offset=batch.offset,
        again=tuple(key for key in process.again if key not in batch.again),
        held=None,
    )
    words = f"host {host} hears that it is committed, writes ({process.epoch}, {batch.number})"
    return words, False, with_process(site, host, after)


def _written(site: Site, host: int, process: Process) -> Site:
    """Entries, positions and number in one piece; nothing is held back any more."""
    batch, folder = process.batch, site.folders[host]
    assert batch is not None
    written = Folder(
        overlay(folder.store, batch.entries),
        StateNumber(process.epoch, batch.number),
        batch.end,
        max(folder.epoch, process.epoch),
    )
    return with_folder(site, host, written)
