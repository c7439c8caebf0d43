"""The kinds of stores: key-value and versioned ones, of windows and joins, buffers, timers."""

from __future__ import annotations

from streamlet.state.backing import Backing
from streamlet.state.bucket_store import BucketStore
from streamlet.state.buffer_store import BufferStore
from streamlet.state.group_notes import GroupNotes
from streamlet.state.headed_parts import in_parts
from streamlet.state.join_store import JoinStore
from streamlet.state.row_ttl import RowTtl
from streamlet.state.source_times import SourceTimes
from streamlet.state.store import CachedStore
from streamlet.state.store_commits import TaskStore
from streamlet.state.store_specs import StoreSpec
from streamlet.state.time_window_store import TimeWindowStore
from streamlet.state.timer_store import TimerStore
from streamlet.state.unmatched_store import UnmatchedStore
from streamlet.state.versioned_store import VersionedStore


def store_of(facts: StoreSpec, backing: Backing) -> TaskStore:
    """The store that the facts describe, over a backing."""
    store = _of_kind(facts, backing)
    if facts.headers:
        store.commits.keep_headers(in_parts=in_parts(facts))
    return store


def _of_kind(facts: StoreSpec, backing: Backing) -> TaskStore:
    if facts.buffer is not None:
        return BufferStore(facts.name, facts.buffer.key, facts.value, backing)
    if facts.versions is not None:
        return VersionedStore(facts.name, facts.versions, facts.value, backing)
    if facts.timers:
        return TimerStore(facts.name, backing)
    if facts.join == "unmatched":
        return UnmatchedStore(facts.name, facts.value, backing)
    if facts.window is None:
        notes = GroupNotes(facts.name, backing) if facts.groups else None
        store = CachedStore(facts.name, facts.key, facts.value, backing, notes)
        store.commits.source_times = SourceTimes(facts.extractor)
        if facts.ttl_ms is not None:
            store.ttl = RowTtl(store, facts.ttl_ms)
        return store
    if facts.join == "records":
        return JoinStore(facts.name, facts.window, facts.value, backing)
    kind = BucketStore if facts.window.bucket_ms else TimeWindowStore
    return kind(facts.name, facts.window, facts.value, backing)
