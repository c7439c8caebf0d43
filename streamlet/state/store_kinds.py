"""The kinds of stores: key-value and versioned ones, of windows and joins, buffers, timers."""

from __future__ import annotations

from streamlet.state.backing import Backing
from streamlet.state.bucket_store import BucketStore
from streamlet.state.buffer_store import BufferStore
from streamlet.state.expiring_store import ExpiringStore
from streamlet.state.group_store import GroupStore
from streamlet.state.join_store import JoinStore
from streamlet.state.source_times import SourceTimes
from streamlet.state.store import CachedStore
from streamlet.state.store_facts import StoreFacts
from streamlet.state.time_window_store import TimeWindowStore
from streamlet.state.timer_store import TimerStore
from streamlet.state.unmatched_store import UnmatchedStore
from streamlet.state.versioned_store import VersionedStore


def store_of(facts: StoreFacts, backing: Backing) -> CachedStore:
    """The store that the facts describe, over a backing."""
    if facts.buffer is not None:
        return BufferStore(facts.name, facts.buffer.key, facts.value, backing)
    if facts.versions is not None:
        return VersionedStore(facts.name, facts.versions, facts.value, backing)
    if facts.timers:
        return TimerStore(facts.name, backing)
    if facts.join == "unmatched":
        return UnmatchedStore(facts.name, facts.value, backing)
    if facts.ttl_ms is not None:
        return ExpiringStore(facts.name, facts.key, facts.value, backing, facts.ttl_ms)
    if facts.groups:
        return GroupStore(facts.name, facts.key, facts.value, backing)
    if facts.window is None:
        store = CachedStore(facts.name, facts.key, facts.value, backing)
        store.source_times = SourceTimes(facts.extractor)
        return store
    if facts.join == "records":
        return JoinStore(facts.name, facts.window, facts.value, backing)
    kind = BucketStore if facts.window.bucket_ms else TimeWindowStore
    return kind(facts.name, facts.window, facts.value, backing)
