"""The metrics of stores and of nodes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from streamlet.runtime.metrics.metric import Value, counter, gauge, histogram
from streamlet.state.backing import StoreFigures

if TYPE_CHECKING:
    from streamlet.processing.node_meters import NodeMeter
    from streamlet.runtime.metrics.measure import MeasuredMember

_S = "streamlet_stream_state_"
_N = "streamlet_stream_processor_node_process_"
_STORE = ("task", "store")


def _of_stores(
    value: Callable[[StoreFigures], float | None], member: MeasuredMember
) -> dict[tuple[str, ...], Value]:
    """A value of each store that has it."""
    found = member.meters.stores.figures(member.tasks)
    return {key: known for key, one in found.items() if (known := value(one)) is not None}


def _of_medium(name: str, member: MeasuredMember) -> dict[tuple[str, ...], Value]:
    """A figure of RocksDB of each store that is on disk."""
    return _of_stores(lambda one: one.medium.get(name), member)


def _of_nodes(
    value: Callable[[NodeMeter], float], member: MeasuredMember
) -> dict[tuple[str, ...], Value]:
    return {
        (name, node): value(one)
        for name, task in member.tasks.items()
        for node, one in task.meters.nodes.items()
    }


def _block_cache(member: MeasuredMember) -> dict[tuple[str, ...], Value]:
    found = _of_medium("block-cache-usage", member).values()
    return {(): max(found)} if found else {}


STATE_METRICS = (
    counter(
        _N + "total",
        "Records that an operator was given since the task began to run here",
        ("task", "node"),
        partial(_of_nodes, lambda one: one.records),
    ),
    counter(
        _N + "seconds_total",
        "Seconds that it took for them, without the operators behind it; of batches of less than 8 "
        "records every sixteenth is timed",
        ("task", "node"),
        partial(_of_nodes, lambda one: one.ns / 1e9),
    ),
    counter(
        "streamlet_stream_task_punctuate_total",
        "Calls of punctuators and timers since the task began to run here",
        ("task",),
        of_task=lambda task: task.meters.punctuated,
    ),
    histogram(
        "streamlet_consumer_coordinator_partition_assigned_latency_seconds",
        "From taking an assignment until it was acted on; tasks come up afterwards",
        of=lambda m: m.meters.assigned.value(),
    ),
    counter(
        _S + "put_total",
        "Rows that commits put on the store's medium; a row may be changed many times before",
        _STORE,
        partial(_of_stores, lambda one: one.written),
    ),
    counter(
        _S + "get_total",
        "Rows that were asked of the medium, because they were not in memory",
        _STORE,
        partial(_of_stores, lambda one: one.read),
    ),
    gauge(
        _S + "cache_bytes",
        "Memory of the rows that a store keeps in memory, an estimate",
        _STORE,
        partial(_of_stores, lambda one: one.cached_bytes),
    ),
    *(
        gauge(_S + name, help, _STORE, partial(_of_medium, figure))
        for name, figure, help in (
            ("estimate_num_keys", "estimate-num-keys", "Keys of a store on disk, an estimate"),
            ("total_sst_files_size_bytes", "total-sst-files-size", "Its files on disk"),
            ("size_all_mem_tables_bytes", "size-all-mem-tables", "Its memtables"),
            (
                "estimate_pending_compaction_bytes",
                "estimate-pending-compaction-bytes",
                "What compactions have still to rewrite of it, an estimate",
            ),
            ("num_running_compactions", "num-running-compactions", "Its compactions under way"),
            ("write_stopped", "is-write-stopped", "1 while RocksDB takes no writes (a stall)"),
            ("background_errors", "background-errors", "Errors of its flushes and compactions"),
        )
    ),
    gauge(
        _S + "block_cache_usage_bytes",
        "RocksDB's block cache, which all stores of the process share",
        of=_block_cache,
    ),
)
