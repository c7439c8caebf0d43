"""The application ``waiting``: what it needs first, and what its stores must hold in the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from streamlet import Windowed
from streamlet.state.task_state import TaskState
from streamlet.types import NO_STATE, StateNumber, TaskId
from tests.integration.chaos.states import copied
from tests.integration.chaos.support import Cluster, Instance
from tests.integration.chaos.topics import Load, read_all
from tests.integration.chaos.waiting import DIGITS, KEYS, ORDERS


def fill_tables(cluster: Cluster) -> None:
    """Give each key a row, in both tables."""
    for topic, keys in (("rows", KEYS), ("digits", DIGITS)):
        with Load(cluster.servers, cluster.topic(topic), keys=keys) as rows:
            rows.send(keys * 30)
            rows.finish()


def wrong_stores(
    cluster: Cluster, instances: list[Instance], *, once: bool = False
) -> dict[str, tuple[int, int]]:
    """Sums of each store whose contents are not those that the input makes: wanted, and found.

    ``once``: each count is put out once, and in order.
    """
    stored = _stored(cluster, instances)
    there = read_all(cluster.servers, cluster.topic("in"), range(cluster.partition_count))
    keys = Counter(record.key.decode() for record in there)
    last, songs = Counter[str](), Counter[str]()
    for key, count in keys.items():
        last[key[-1]] += count
        songs[f"song {key}"] += count
    # A load whose producer was replaced may write an order twice; the join puts both out.
    orders = [r.number for r in there if r.number % ORDERS == 0]
    wanted = {
        "shop": last,
        "plays": songs,
        "charts": last,
        "twice": last,
        "answered": last,
        "sold": Counter({"all": len(orders)}),
        "scattered": Counter({"all": stored.get("sent", Counter()).total()}),
    }
    parts = cluster.topology.subtopologies
    there_are = {store.name for part in parts for store in part.stores}
    wanted = {store: sums for store, sums in wanted.items() if store in there_are}
    found = {store: stored.get(store, Counter()) for store in wanted}
    if "answered" in wanted:
        wanted["answers"], found["answers"] = last, _put_out(cluster, "answers", once)
    if "charts" in wanted:
        wanted["genres"], found["genres"] = last, _put_out(cluster, "genres", once)
    for store in {"sold", "scattered"} & wanted.keys():
        found[store] = Counter({"all": found[store].total()})
    return {
        store: (wanted[store].total(), found[store].total())
        for store in wanted
        if wanted[store] != found[store]
    }


def _put_out(cluster: Cluster, topic: str, once: bool) -> Counter[str]:
    """The highest count of each key in a topic; 0 if a lower one is missing, or not ``once``."""
    numbers: dict[str, list[int]] = {}
    for record in read_all(cluster.servers, cluster.topic(topic), range(cluster.partition_count)):
        numbers.setdefault(record.key.decode(), []).append(record.number)
    found = Counter[str]()
    for key, ones in numbers.items():
        all_of_them = list(range(1, max(ones) + 1))
        if (ones if once else sorted({*ones})) == all_of_them:
            found[key] = max(ones)
    return found


def _stored(cluster: Cluster, instances: list[Instance]) -> dict[str, Counter[str]]:
    """The numbers of each store by key, in the newest copies of all tasks on stopped instances."""
    newest: dict[TaskId, tuple[StateNumber, dict[str, Counter[str]]]] = {}
    for instance in instances:
        for folder in copied(cluster, instance.state, instance.folder / "copy"):
            stores = cluster.topology.subtopology(folder.task.subtopology).stores
            state = TaskState(folder.path, stores, 1 << 20)
            try:
                if state.state > newest.get(folder.task, (NO_STATE, {}))[0]:
                    found = {name: _sums(store.range()) for name, store in state.stores.items()}
                    newest[folder.task] = state.state, found
            finally:
                state.close()
    together: dict[str, Counter[str]] = {}
    for _, found in newest.values():
        for name, sums in found.items():
            together[name] = together.get(name, Counter()) + sums
    return together


def _sums(rows: Iterable[tuple[object, object]]) -> Counter[str]:
    found = Counter[str]()
    for key, value in rows:
        count = sum(value.values()) if isinstance(value, dict) else value
        if isinstance(count, int):
            found[str(key.key if isinstance(key, Windowed) else key)] += count
    return found
