"""``streamlet workers``: more or fewer worker processes for a running instance on this host."""

from __future__ import annotations

import threading
from pathlib import Path

from streamlet.clock import Clock, SystemClock
from streamlet.counted import counted
from streamlet.errors import TimedOutError
from streamlet.tools.application import ONLY_INSTANCE, LocalInstance
from streamlet.tools.command import Common, command

POLL_S = 0.2
#: How long to wait for the instance to take it, ms; it looks about once a second.
WAIT_MS = 30_000


@command("workers add")
def add(common: Common, instance: LocalInstance = ONLY_INSTANCE) -> None:
    """Have an instance on this host run one worker process more; it goes on as it is.

    The new worker joins the group, and gets tasks as one of a new instance does. The number holds
    until the instance ends: the next one has what --processes says. Say APP, --name or --state-dir
    where several instances run here.

    Exit 3: no such instance. 4: it does not take it. 5: refused.
    """
    _change(common, instance, 1)


@command("workers remove")
def remove(common: Common, instance: LocalInstance = ONLY_INSTANCE) -> None:
    """Have the last worker process of an instance on this host end; the others go on.

    It finishes its batch, commits and leaves the group, and its tasks go to others: the state is
    where the other workers of the instance find it. Not the only one: streamlet drain has the whole
    instance leave.

    Exit 3: no such instance. 4: it does not take it. 5: refused.
    """
    _change(common, instance, -1)


def _change(common: Common, instance: LocalInstance, by: int) -> None:
    from streamlet.hosting.worker_count import change

    found = instance.living(common)
    count = change(found, by)
    await_count(found.file, count, SystemClock())
    document = {"application": found.application, "name": found.name, "workers": count}
    common.output.answer(document, f"{found.name} has {count} worker{'s' * (count > 1)}")


def await_count(file: Path, count: int, clock: Clock) -> None:
    """Wait until an instance has as many workers as were asked for.

    Raises:
        TimedOutError: it does not take it.
    """
    from streamlet.state.instances import InstanceFolder

    until_ms, pause = clock.now_ms() + WAIT_MS, threading.Event()
    while (found := InstanceFolder.read(file)).workers != count:
        if found.pid is None or clock.now_ms() >= until_ms:
            raise TimedOutError(
                f"{found.name} has {counted(found.workers, 'worker')}, not {count}: it does "
                "not take what it is asked for"
            )
        pause.wait(POLL_S)
