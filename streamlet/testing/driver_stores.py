"""The stores of a ``TopologyTestDriver``, by their names and the partitions of their tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_origin

import attrs

from streamlet.arguments import check_is
from streamlet.dsl.processors.store_faces import GlobalStores, face_of
from streamlet.dsl.processors.store_views import seen_as
from streamlet.errors import NotFoundError
from streamlet.processing.edges.writer import EdgeWriter
from streamlet.processing.task import Task
from streamlet.state.store_specs import StoreSpec
from streamlet.state.task_state import TaskState
from streamlet.topology.operator import TaskContext
from streamlet.user_code import listed, shown


@attrs.frozen
class DriverStores:
    """The stores of one task, or those of global tables, with what is known of them."""

    specs: Mapping[str, StoreSpec]
    task: TaskContext | GlobalStores

    def shown(self, name: str, kind: Any) -> Any:
        """A store with the public methods of its kind, or of one that is asked for."""
        found = face_of(self.specs[name], self.task)
        return found if kind is None else seen_as(found, kind)


@attrs.define
class DriverTask:
    """A task of a driver, with the state it commits."""

    task: Task
    state: TaskState
    origins: EdgeWriter
    stores: DriverStores
    commits: int = 0


def shown_store(
    name: str,
    kind: Any,
    partition: int | None,
    tasks: Sequence[tuple[int, DriverStores]],
    of_globals: DriverStores,
) -> Any:
    """The store of that name, of a global table or of a task, each with its partition.

    Raises:
        NotFoundError: there is none, or several and no partition is given.
        TypeError: it is not of the kind, if one is given.
    """
    if kind is not None:
        check_is("store(): the kind", get_origin(kind) or kind, (type,), "a class of stores")
    if name in of_globals.specs:
        return of_globals.shown(name, kind)
    found = {number: stores for number, stores in tasks if name in stores.specs}
    if not found:
        known = {*of_globals.specs, *(name for _, stores in tasks for name in stores.specs)}
        raise NotFoundError(f"no store {shown(name)}; there are: {listed(sorted(known)) or 'none'}")
    number = min(found) if partition is None and len(found) == 1 else partition
    if number is None or number not in found:
        raise NotFoundError(
            f"store {shown(name)} is in the tasks of partitions {', '.join(map(str, found))}: "
            "partition= says which one is meant"
        )
    return found[number].shown(name, kind)
