"""Hand-overs that are caught in the act, and what must hold when they are over."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence

import attrs
import pytest

from streamlet.admin.status_look import StatusLook
from tests.integration.chaos.checks import assert_counts_exact, contents
from tests.integration.chaos.support import SELDOM_S, Cluster, Instance, wait_for
from tests.integration.chaos.topics import Load
from tests.windows import window

#: Each decision is a line of the debug log.
TALKATIVE = ("--log-level", "debug")


@attrs.frozen
class Stage:
    """A moment of a hand-over: what who says then."""

    name: str
    of_owner: bool
    says: str


LEARNING = Stage("learning", False, "SetCopies(learner=frozenset({")
READY = Stage("ready", False, "rejoining: a learner is ready")
ORDERED = Stage("ordered", True, "GiveUp(")
STOPPED = Stage("stopped", True, "CommitLast(")
RELEASED = Stage("released", True, "UnblockJoin(")
ACTIVATING = Stage("activating", False, "positions=Positions(")
STAGES = (LEARNING, READY, ORDERED, STOPPED, RELEASED, ACTIVATING)


def await_line(
    instance: Instance,
    text: str,
    start: int = 0,
    timeout_s: float = 300.0,
    *,
    beside: Sequence[Instance] = (),
) -> None:
    """Wait until the log says this behind so many bytes; looks every millisecond at what is new.

    If it never does, the ends of the logs are printed, also of those ``beside``.
    """
    deadline, pause = time.monotonic() + timeout_s, threading.Event()
    wanted, said = text.encode(), b""
    with instance.log_file.open("rb") as log:
        log.seek(start)
        while wanted not in (said := said + log.read()):
            said = said[-len(wanted) :]  # of what comes next this may be the beginning
            if time.monotonic() > deadline:
                ends = (one.log_with_stacks()[-20_000:] for one in (instance, *beside))
                pytest.fail(f"{instance.name} never says {text!r}:\n" + "\n\n".join(ends))
            pause.wait(0.001)


def catch(stage: Stage, owner: Instance, joiner: Instance) -> None:
    """Start the joiner and wait for this moment of the hand-over to it."""
    start = owner.log_file.stat().st_size
    joiner.start()
    if stage.of_owner:
        await_line(owner, stage.says, start)
    else:
        await_line(joiner, stage.says)


def await_owners(cluster: Cluster, *instances: Instance) -> None:
    """Wait until exactly these have committed all tasks, each some."""
    wanted = {instance.name for instance in instances}

    def theirs() -> bool:
        owners = cluster.owners()
        names = {owner.split("-")[0] for owner in owners.values()}
        return names == wanted and len(owners) == len(cluster.tasks)

    wait_for(
        theirs,
        lambda: f"{wanted} run all: {cluster.owners()}\n{cluster.logs()}",
        pause_s=SELDOM_S,
    )


def assert_settled(cluster: Cluster) -> None:
    """The group comes to rest: every rule holds, and nobody learns any more.

    A task that was handed over shows as pending until the next rebalance, which is not needed.
    """
    look = StatusLook(window(cluster.transport, cluster.admin, cluster.name), check=True)
    seen: list[object] = []

    def at_rest() -> bool:
        found = look.now()
        tasks = [t for i in found["instances"] for m in i["members"] for t in m["tasks"]]
        actives = Counter(task["task"] for task in tasks if task["role"] == "active")
        seen[:] = [found]
        return (
            not found["violations"]
            and not any(task["isLearner"] for task in tasks)
            and actives == Counter(map(str, cluster.tasks))
        )

    wait_for(at_rest, lambda: f"the group settles: {seen}\n{cluster.logs()}", pause_s=SELDOM_S)


def assert_exact_in_the_end(cluster: Cluster, living: Sequence[Instance], load: Load) -> None:
    """The group is at rest; everything is processed, and counted once."""
    assert_settled(cluster)
    true = load.finish()
    cluster.await_settled()
    assert [instance.stop() for instance in living] == [0] * len(living), cluster.logs()
    assert_counts_exact(cluster, contents(cluster, list(living)), true)
