"""The stores of an application as ``GET /stores`` lists them."""

from __future__ import annotations

from typing import Any

from streamlet.dsl.processors.store_faces import OperatorStore
from streamlet.dsl.processors.store_views import KeyValueStore, VersionedKeyValueStore
from streamlet.dsl.processors.window_views import SessionStore, WindowStore
from streamlet.queries.local import LocalStore
from streamlet.queries.metadata import hosts
from streamlet.tasks.served_tasks import ServedTasks, ServingWorker

_KINDS: dict[type, str] = {
    KeyValueStore: "key-value",
    VersionedKeyValueStore: "versioned",
    WindowStore: "window",
    SessionStore: "session",
    OperatorStore: "operator",
}


def overview(worker: ServingWorker, served: ServedTasks) -> dict[str, Any]:
    """The stores with their kinds and partitions, and the members that have them."""
    topology, view = worker.topology, worker.view()
    return {
        "application": topology.application,
        "stores": [
            {
                "name": spec.name,
                "kind": _kind(LocalStore(served, topology, spec.name)),
                "key": (spec.record_key if spec.window is None else spec.window.key).name,
                "value": (spec.value if spec.versions is None else spec.versions.value).name,
                "subtopology": part.id,
                "partitions": part.task_count(worker.counts()),
            }
            for part in topology.subtopologies
            for spec in part.stores
        ],
        "members": [
            {
                "member": one.member,
                "server": one.server,
                "url": one.url,
                "active": [str(task) for task in one.active],
                "copies": [str(task) for task in one.copies],
            }
            for one in hosts(view)
        ],
    }


def _kind(store: LocalStore) -> str:
    face = store.face()
    return next((name for kind, name in _KINDS.items() if isinstance(face, kind)), "key-value")
