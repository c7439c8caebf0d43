"""Dormant state: tasks on this instance's disk that no worker here has open."""

from __future__ import annotations

import logging

from streamlet.errors import BrokerError, StateError
from streamlet.kafka.ports import Admin
from streamlet.state.directory import StateDirectory
from streamlet.types import TaskId

log = logging.getLogger(__name__)


def dormant_copies(directory: StateDirectory, admin: Admin) -> dict[TaskId, int | None]:
    """Dormant tasks, with the records that their changelogs have behind the local positions.

    None where no broker says how many. Damaged folders, and those whose changelogs are gone, are
    left out: they are worth nothing.

    Raises:
        BrokerError: no broker answers which topics there are.
    """
    positions = {}
    for folder in directory.tasks():
        try:
            contents = folder.contents() if folder.holder is None else None
        except StateError as error:
            log.warning("state of task %s is not offered: %s", folder.task, error)
            continue
        if contents is not None and contents.positions:
            positions[folder.task] = contents.positions
    known = admin.topics()
    positions = {
        task: where
        for task, where in positions.items()
        if all(tp.topic in known and tp.partition < known[tp.topic].partitions for tp in where)
    }
    try:
        ends = admin.end_offsets(sorted({tp for where in positions.values() for tp in where}))
    except BrokerError as error:
        log.warning("state on disk is offered without knowing what it lacks: %s", error)
        return dict.fromkeys(positions)
    return {
        task: sum(max(0, ends[tp] - position) for tp, position in where.items())
        for task, where in positions.items()
    }
