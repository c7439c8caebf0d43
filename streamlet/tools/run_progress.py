"""The output of ``streamlet run``: its workers' states, restoring, and the summary at the end."""

from __future__ import annotations

import logging
from typing import Any

import attrs

from streamlet.counted import counted
from streamlet.errors import ProcessingError
from streamlet.runtime.metrics.values import Snapshot
from streamlet.tools.output import CommandOutput
from streamlet.tools.run_live import LiveLine

#: What to do about a record that fails each time.
_RECORD_FAILS = (
    "a record failed: mend what fails on it, or have on_error= of App leave such records out, "
    '"skip", or put them aside, ("dead_letter", TOPIC)'
)


@attrs.define
class _Member:
    state: str = ""
    tasks: tuple[str, ...] = ()
    records: int = 0
    dropped: int = 0
    skipped: int = 0


@attrs.define(eq=False)
class RunProgress:
    """Turns workers' events into lines on standard error, and into the answer at the end.

    Args:
        output: where to.
        application: its name.
        name: the instance's.
        live: gets what workers measure.
    """

    _output: CommandOutput
    _application: str
    _name: str
    _live: LiveLine
    _members: dict[int, _Member] = attrs.field(factory=dict, init=False)
    _error: dict[str, str] | None = attrs.field(default=None, init=False)
    #: Since when the instance is on its way out, wall-clock ms; None: it is not.
    leaving_since_ms: int | None = attrs.field(default=None, init=False)

    def event(self, member: int, event: dict[str, Any]) -> None:
        """Take one event of a worker."""
        one = self._members.setdefault(member, _Member())
        match event["event"]:
            case "state":
                self._state(member, one, event["state"], tuple(event["tasks"]))
            case "restoring":
                self._restoring(member, event)
            case "leaving":
                self._leaving(event["since_ms"])
            case "staying":
                self._leaving(None)
            case "ended":
                one.tasks = ()
                one.records += event["records"]
                one.dropped += event["dropped"]
                one.skipped += event["skipped"]
            case "failed":
                self._error = {"type": event["error"], "message": event["message"]}
                self._output.event(f"{self._who(member)} failed: {event['message']}", logging.ERROR)
            case "measured":
                self._live.take(member, Snapshot.from_event(event))
            case "exited":
                self._live.ended(member)
            case "removed":
                del self._members[member]
            case "member" | "finished":
                pass  # what it means for the instance, the supervisor logs
            case unknown:
                raise AssertionError(f"a worker reported {unknown!r}")

    def ended(self, exit_code: int, drained: bool) -> None:
        """Print the answer."""
        members = self._members.values()
        error = self._error if exit_code else None
        if error is not None and error["type"] == ProcessingError.__name__:
            error["hint"] = _RECORD_FAILS
            self._output.note(_RECORD_FAILS)
        records, skipped = sum(m.records for m in members), sum(m.skipped for m in members)
        dropped = sum(m.dropped for m in members)
        document = {
            "application": self._application,
            "name": self._name,
            "records": records,
            "dropped": dropped,
            "skipped": skipped,
            "drained": drained,
            "exit_code": exit_code,
            "error": error,
        }
        how = "failed" if exit_code else "drained" if drained else "stopped"
        text = f"{self._name} {how}: {counted(records, 'record')} processed, {skipped:,} skipped"
        if dropped:
            text += f", {dropped:,} dropped for want of a key, a value or a time"
        self._output.answer(document, text)

    def _leaving(self, since_ms: int | None) -> None:
        """Each member tells of it."""
        if (since_ms is None) == (self.leaving_since_ms is None):
            return
        self.leaving_since_ms = since_ms
        what = "stays after all" if since_ms is None else "is leaving: it hands its tasks over"
        self._output.event(f"{self._name} {what}")

    def _who(self, member: int) -> str:
        return f"{self._name}-{member}"

    def _state(self, number: int, one: _Member, state: str, tasks: tuple[str, ...]) -> None:
        if (state, tasks) == (one.state, one.tasks):
            return
        one.state, one.tasks = state, tasks
        self._output.event(f"{self._who(number)} {state} tasks: {' '.join(tasks) or 'none'}")

    def _restoring(self, member: int, event: dict[str, Any]) -> None:
        if not event["restored"] and not event["remaining"]:
            return  # an empty changelog is no news
        eta = "" if event["eta_s"] is None else f", {event['eta_s']:.0f} s left"
        self._output.event(
            f"{self._who(member)} restoring {event['task']} {event['store']}: "
            f"{counted(event['restored'], 'record')}, {event['remaining']:,} to go, "
            f"{event['rate']:,.0f}/s{eta}"
        )
