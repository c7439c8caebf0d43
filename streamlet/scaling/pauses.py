"""Pausing an application, or a subtopology of it, and resuming it, by its control topic."""

from __future__ import annotations

from typing import Any

import attrs

from streamlet.admin.applications import check_known
from streamlet.admin.status import pauses_shown
from streamlet.admin.window import GroupWindow
from streamlet.control.records import place_of
from streamlet.control.values import ALL, PauseMark
from streamlet.control.view import ControlView
from streamlet.errors import NotFoundError, RefusedError
from streamlet.scaling.command_lock import command_lock
from streamlet.user_code import shown


@attrs.frozen
class PauseResult:
    """The pauses that there are, after a command that ``changed`` them or found them so."""

    application: str
    pauses: tuple[PauseMark, ...]
    changed: bool

    def as_dict(self) -> dict[str, Any]:
        """The document that the commands print."""
        return {
            "application": self.application,
            "paused": pauses_shown(self.pauses),
            "changed": self.changed,
        }


@attrs.frozen
class PauseCommand:
    """Sets or removes pauses of one application.

    Args:
        window: on it.
        subtopology: number of one, or the name of a store, topic or node in it; None: everything.
    """

    window: GroupWindow
    subtopology: str | None = None

    def pause(self, by: str = "") -> PauseResult:
        """Have the tasks stand still; ``by`` names the operator's host.

        Raises:
            NotFoundError: no such application or subtopology.
            BrokerError: the broker does not answer, or refuses.
            DeliveryError: the control topic cannot be written.
        """
        window = self.window
        check_known(window, window.admin.topics())
        with command_lock(window, f"pause of {window.name}"):
            view = window.control.view
            wanted = PauseMark(self._what(view), window.clock.wall_ms(), by)
            if wanted.what in view.pauses or ALL in view.pauses:
                return self._result(view.pauses.values(), changed=False)
            window.control.write(wanted)
            window.control.flush()
            return self._result([*view.pauses.values(), wanted], changed=True)

    def resume(self) -> PauseResult:
        """Have the tasks go on; without a subtopology all of them.

        Raises:
            NotFoundError: no such application or subtopology.
            RefusedError: the whole application is paused, and one subtopology was named.
            BrokerError: the broker does not answer, or refuses.
            DeliveryError: the control topic cannot be written.
        """
        window = self.window
        check_known(window, window.admin.topics())
        with command_lock(window, f"resume of {window.name}"):
            view = window.control.view
            what = self._what(view)
            if what != ALL and ALL in view.pauses:
                raise RefusedError(
                    f"all of {window.name} is paused, so no subtopology of it can go on by itself;"
                    " resume it without --subtopology. Nothing was changed"
                )
            gone = [one for one in view.pauses.values() if what in (ALL, one.what)]
            window.control.remove(*map(place_of, gone))
            window.control.flush()
            left = [one for one in view.pauses.values() if one not in gone]
            return self._result(left, changed=bool(gone))

    def _result(self, pauses: Any, *, changed: bool) -> PauseResult:
        return PauseResult(self.window.name, tuple(pauses), changed)

    def _what(self, view: ControlView) -> str:
        if self.subtopology is None:
            return ALL
        parts = {str(part.id): part.names for part in view.parts}
        if self.subtopology in parts:
            return self.subtopology
        found = [number for number, names in parts.items() if self.subtopology in names]
        if len(found) == 1:
            return found[0]
        if not parts and self.subtopology.isascii() and self.subtopology.isdigit():
            return str(int(self.subtopology))
        which = "no subtopology" if not found else f"subtopologies {', '.join(found)}"
        raise NotFoundError(
            f"{which} of {self.window.name} with {shown(self.subtopology)}: give its number, or "
            "the name of a store, topic or node that only it has (streamlet describe shows them)"
        )
