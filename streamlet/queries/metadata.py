"""The members that have a store, or a key of it, as they report it themselves; pure."""

from __future__ import annotations

from collections.abc import Collection

import attrs

from streamlet.absent import explains_misuse
from streamlet.control.values import MemberKey, MemberProgress, StoreServer
from streamlet.control.view import ControlView
from streamlet.types import TaskId

#: The roles of a task whose member has, or is about to have, its stores; the likeliest first.
_ROLES = ("active", "pending", "learner", "standby", "released")
_COPIES = ("learner", "standby")


@explains_misuse
@attrs.frozen
class StoreHost:
    """A member, the tasks that it reports, and where it answers queries.

    ``server`` is ``host:port``, its ``application.server``; None: nowhere. ``url`` is that of
    streamlet's own server, None without one. ``active`` are the tasks that it runs, ``copies``
    those that it has standbys and learners of.
    """

    member: str
    server: str | None
    url: str | None
    active: tuple[TaskId, ...] = ()
    copies: tuple[TaskId, ...] = ()


@explains_misuse
@attrs.frozen
class KeyMetadata:
    """The members that have a key: the one that runs its task, and those with copies.

    ``active`` is None while no member reports the task, as during a rebalance.
    """

    partition: int
    active: StoreHost | None
    copies: tuple[StoreHost, ...]


def hosts(view: ControlView, parts: Collection[int] | None = None) -> tuple[StoreHost, ...]:
    """The members that report tasks of some subtopologies, by name; None: all members."""
    found = [_host(report, view.servers.get(key), parts) for key, report in view.progress.items()]
    if parts is not None:
        found = [one for one in found if one.active or one.copies]
    return tuple(sorted(found, key=lambda one: one.member))


def of_task(view: ControlView, task: TaskId) -> KeyMetadata:
    """The members that have one task."""
    every = hosts(view, [task.subtopology])
    return KeyMetadata(
        task.partition,
        next((one for one in every if task in one.active), None),
        tuple(one for one in every if task in one.copies),
    )


def candidates(view: ControlView, task: TaskId) -> list[StoreServer]:
    """The servers that may answer for a task, the likeliest first; streamlet's own only."""
    ranked: list[tuple[int, MemberKey]] = []
    for key, report in view.progress.items():
        one = report.task(str(task))
        if one is not None and one.role in _ROLES:
            ranked.append((_ROLES.index(one.role), key))
    servers = [view.servers[key] for _, key in sorted(ranked) if key in view.servers]
    return [one for one in servers if one.url is not None]


def _host(
    report: MemberProgress, server: StoreServer | None, parts: Collection[int] | None
) -> StoreHost:
    tasks = [(TaskId.parse(one.task), one) for one in report.tasks]
    if parts is not None:
        tasks = [(task, one) for task, one in tasks if task.subtopology in parts]
    active = (task for task, one in tasks if one.role == "active" and one.stage == "running")
    copies = (task for task, one in tasks if one.role in _COPIES)
    address = None if server is None else server.address
    url = None if server is None else server.url
    return StoreHost(report.member, address, url, (*sorted(active),), (*sorted(copies),))
