"""How a host comes up: from the commit it starts from to a state that may go on, or as a copy."""

from __future__ import annotations

from collections.abc import Iterator

from streamlet.types import NO_STATE
from tests.simulation.model.folders import (
    FOLLOWING,
    IDLE,
    PROMOTING,
    Commit,
    Folder,
    FolderRules,
    Process,
    Site,
    Store,
    fold,
    overlay,
    with_folder,
    with_process,
)
from tests.simulation.model.folders_reader import follow, read

Move = tuple[str, bool, Site]
_NOBODY = Commit(0, 0, NO_STATE)


def assigned(site: Site, host: int, rules: FolderRules) -> Move:
    """Read the commit, then the changelog's end; begin to restore."""
    commit, folder = site.commit, site.folders[host]
    words = f"host {host} gets T, committed are {commit.offset} and {tuple(commit.state)}"
    copy = site.processes[host]
    if copy is not None:
        promoted = copy._replace(step=PROMOTING, commit=commit, end=len(site.log))
        return words, False, with_process(site, host, promoted)._replace(owner=host)
    if rules.ahead and folder.state > commit.state:
        folder = Folder()
        site = with_folder(site, host, folder)
        words += ", its folder is ahead and is emptied"
    process = Process(commit, folder.store, folder.position, folder.epoch, end=len(site.log))
    return words, False, with_process(site, host, process)._replace(owner=host)


def restores(site: Site, host: int, process: Process, rules: FolderRules) -> Iterator[Move]:
    """Read the changelog; with ``chunks`` what was read may be on the medium after any record."""
    if process.position >= process.end:
        yield _finished(site, host, process, rules)
        return
    first = process.position + 1 if rules.chunks else process.end
    for stop in range(first, process.end + 1):
        chunk = read(
            site.log,
            process.position,
            stop,
            process.highest,
            process.skipped,
            process.commit,
            rules,
        )
        store = overlay(process.store, chunk.entries)
        after = process._replace(
            store=store, position=stop, highest=chunk.highest, skipped=chunk.skipped
        )
        folder = site.folders[host]._replace(
            store=store, position=chunk.persist, epoch=max(chunk.highest, site.folders[host].epoch)
        )
        there = with_folder(with_process(site, host, after), host, folder)
        if rules.chunks:
            yield f"host {host} restores up to changelog offset {stop}", False, there
        else:
            yield _finished(there, host, after, rules)


def follows(site: Site, host: int) -> Move:
    """Begin to keep a copy."""
    folder = site.folders[host]
    copy = Process(site.commit, folder.store, folder.position, folder.epoch, step=FOLLOWING)
    words = f"host {host} begins to keep a copy"
    return words, False, with_process(site, host, copy._replace(commit=_NOBODY))


def reads_on(site: Site, host: int, process: Process, rules: FolderRules) -> Iterator[Move]:
    """A copy reads what there is; promoted, it settles what it held back."""
    promoted = process.step == PROMOTING
    if not promoted and process.position == len(site.log):
        return
    log = site.log[: process.end] if promoted else site.log
    limit = process.commit.state if promoted else None
    read_on = follow(log, process.position, process.highest, process.skipped, process.back, limit)
    epoch = read_on.highest
    if read_on.back and rules.epoch_of == "position":
        epoch = read_on.back[0][1].epoch
    store = overlay(process.store, read_on.entries)
    after = process._replace(
        store=store,
        position=len(log),
        highest=read_on.highest,
        skipped=read_on.skipped,
        back=read_on.back,
    )
    folder = site.folders[host]._replace(store=store, position=read_on.persist, epoch=epoch)
    site = with_folder(with_process(site, host, after), host, folder)
    if promoted:
        yield _finished(site, host, after, rules)
    else:
        yield f"host {host}'s copy reads up to changelog offset {len(log)}", False, site


def _finished(site: Site, host: int, process: Process, rules: FolderRules) -> Move:
    commit = process.commit
    folder = site.folders[host]._replace(state=commit.state)
    met = max(process.highest, folder.epoch)
    first = min((offset for _, offset in process.skipped), default=None)
    active = process._replace(
        step=IDLE,
        skipped=(),
        epoch=1 + max(commit.epoch, met, commit.state.epoch),
        offset=commit.offset,
        next=commit.offset,
        again=_to_rewrite(process, rules),
        held=first if rules.held else None,
    )
    site = with_folder(with_process(site, host, active), host, folder)
    words = f"host {host} runs T from {commit.offset} with {dict(process.store)}, epoch"
    if site.owner == host:
        text = inexact(process.store, commit, rules, f"host {host} starts with")
        if commit.offset != site.commit.offset:
            text = f"S1 starts at {commit.offset}, committed is {site.commit.offset}"
        site = site._replace(broken=text)
    return f"{words} {active.epoch}", False, site


def inexact(store: Store, commit: Commit, rules: FolderRules, who: str) -> str:
    """What is wrong with these stores for this commit, "" for nothing (S5)."""
    exact = fold(rules.inputs, commit.offset)
    if store == exact:
        return ""
    return f"S5 {who} {dict(store)} at {commit.offset}, exact is {dict(exact)}"


def _to_rewrite(process: Process, rules: FolderRules) -> tuple[str, ...]:
    keys = [] if rules.rewrite == "nothing" else sorted(key for key, _ in process.skipped)
    if rules.rewrite == "values":
        keys = [key for key in keys if key in dict(process.store)]
    if not keys and rules.fence:  # deleting a key of an empty store changes nothing
        keys = [process.store[0][0] if process.store else "f"]
    return tuple(keys)
