"""What a group looks like from outside: its generation, its ids, who has which task."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import attrs

from streamlet.admin.status_look import StatusLook
from streamlet.coordinator.transport import Transport
from tests.integration.chaos.support import SELDOM_S, Cluster, Instance, wait_for
from tests.windows import window

#: Long enough that nothing in a test can come of a session that ran out.
PATIENT = "60000"
#: Behind this nobody asks for another rebalance because of what was handed over.
CALM_S = 10.0


@attrs.frozen
class Seen:
    """A group at rest."""

    generation: int
    ids: dict[str, str | None]  # static id by member
    tasks: dict[str, list[str]]  # active and pending tasks by member
    members: dict[str, str]  # member id by member

    @classmethod
    def of(cls, document: dict[str, Any]) -> Seen:
        members = [m for instance in document["instances"] for m in instance["members"]]
        tasks = {role: {m["member"]: _of(m, role) for m in members} for role in _ROLES}
        # What was handed over shows as it was ordered, until the next rebalance.
        over = {task for mine in tasks["pending"].values() for task in mine}
        return cls(
            document["group"]["generation"],
            {m["member"]: m["instance_id"] for m in members},
            {
                name: sorted({*mine} - over | {*tasks["pending"][name]})
                for name, mine in tasks["active"].items()
            },
            {m["member"]: m["member_id"] for m in members},
        )


_ROLES = ("active", "pending")


def _of(member: dict[str, Any], role: str) -> set[str]:
    return {task["task"] for task in member["tasks"] if task["role"] == role}


@attrs.frozen
class Watcher:
    """Looks at one cluster's group."""

    cluster: Cluster
    transport: Transport

    def look(self) -> dict[str, Any]:
        """The status document."""
        return StatusLook(window(self.transport, self.cluster.admin, self.cluster.name)).now()

    def seen(self) -> Seen:
        """The group now, once it is stable."""
        found = wait_for(
            lambda: document if (document := self.look())["group"]["state"] == "Stable" else None,
            lambda: f"the group is stable\n{self.cluster.logs()}",
            pause_s=SELDOM_S,
        )
        assert found is not None
        return Seen.of(found)

    def settled(self, *names: str, over: bool = False) -> Seen:
        """The group once exactly these members share all its tasks, and nobody learns.

        ``over``: and nothing is left of hand-overs, which takes a static member to be forgotten.
        Each of several that took tasks over asks for that by itself, so it stays so for a while.
        """
        since: dict[int, float] = {}

        def at_rest() -> Seen | None:
            document = self.look()
            open_ = [h for h in document["handovers"] if over or h["stage"] != "ordered"]
            if document["group"]["state"] != "Stable" or open_:
                return None
            seen = Seen.of(document)
            tasks = sorted(task for mine in seen.tasks.values() for task in mine)
            right = set(seen.ids) == set(names) and all(seen.tasks.values())
            if not right or tasks != sorted(map(str, self.cluster.tasks)):
                return None
            calm_s = time.monotonic() - since.setdefault(seen.generation, time.monotonic())
            return seen if not over or calm_s >= CALM_S else None

        last = wait_for(
            at_rest,
            lambda: f"{names} share all: {self.look()}\n{self.cluster.logs()}",
            pause_s=SELDOM_S,
        )
        assert last is not None
        return last

    def successor(self, name: str, before: Seen) -> Seen:
        """The group once a new process of this member is in it."""
        known = (None, before.members[name])
        return wait_for(
            lambda: now if (now := self.seen()).members.get(name) not in known else None,
            lambda: f"{name} is back\n{self.cluster.logs()}",
        )


@contextmanager
def watching(cluster: Cluster) -> Iterator[Watcher]:
    """A watcher whose connection is closed in the end."""
    transport = Transport(cluster.servers, client_id="watcher")
    try:
        yield Watcher(cluster, transport)
    finally:
        transport.close()


def static(cluster: Cluster, name: str, **more: Any) -> Instance:
    """An instance with a static id, which is its name."""
    return cluster.instance(name, more=("--instance-id", name), **more)
