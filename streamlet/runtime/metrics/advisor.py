"""Works out, in the member that leads the group, how many instances the application needs.

A thread of its own looks at the group and its lag now and then, as ``streamlet status --advice``
does, over connections of its own. Only the leader does, so that one member of the whole application
asks the brokers. Nothing waits for it, and nothing fails with it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import attrs

from streamlet.admin.status_look import StatusLook
from streamlet.errors import StreamletError
from streamlet.logs import get_logger

log = get_logger(__name__)

#: How often to look, and how far back a trend reaches, in looks: five minutes.
LOOK_S = 15.0
MOST_LOOKS = 20
_FAREWELL_S = 1.0


@attrs.define(eq=False, slots=False)
class Advisor:
    """Keeps ``advice`` up to date while this member leads.

    Args:
        opened: opens what looks at the group, with a history, for as long as we lead.
        leads: whether we lead now.
        look_s: how often to look, seconds.
    """

    _opened: Callable[[], AbstractContextManager[StatusLook]]
    _leads: Callable[[], bool]
    _look_s: float = LOOK_S

    def __attrs_post_init__(self) -> None:
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="streamlet-advice", daemon=True)
        #: The newest advice as plain values; None while we do not lead, and before two looks.
        self.advice: dict[str, Any] | None = None

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """End the thread, without waiting for a broker that does not answer."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(_FAREWELL_S)

    def _run(self) -> None:
        while not self._closing.wait(self._look_s):
            if not self._leads():
                continue
            try:
                with self._opened() as look:
                    look.window.stopped = self._closing
                    self._lead(look)
            except StreamletError as error:
                log.info("no advice for now: %s", error)
            finally:
                self.advice = None

    def _lead(self, look: StatusLook) -> None:
        history = look.history
        assert history is not None
        while self._leads():
            advice = look.now()["advice"]
            self.advice = advice if len(history) > 1 else None
            while len(history) > MOST_LOOKS:
                history.popleft()
            if self._closing.wait(self._look_s):
                return
