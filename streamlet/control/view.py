"""The control topic folded up: what holds after all of its records. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import attrs

from streamlet.control.records import Place, decode
from streamlet.control.values import (
    Command,
    Endpoint,
    Mark,
    MemberKey,
    MemberProgress,
    ResetEpoch,
    Shutdown,
)

_FIELDS = {
    Mark: "marks",
    MemberProgress: "progress",
    Endpoint: "endpoints",
    Command: "commands",
}


@attrs.frozen
class ControlView:
    """All entries there are; never changed, so that any thread may read it.

    ``marks`` go by the instance's process id, ``progress`` and ``endpoints`` by member,
    ``commands`` by id, in the order in which they came.
    """

    marks: dict[str, Mark] = attrs.field(factory=dict)
    progress: dict[MemberKey, MemberProgress] = attrs.field(factory=dict)
    endpoints: dict[MemberKey, Endpoint] = attrs.field(factory=dict)
    commands: dict[str, Command] = attrs.field(factory=dict)
    reset: ResetEpoch = attrs.field(factory=lambda: ResetEpoch(0))
    shutdown: Shutdown | None = None

    def apply(self, key: bytes | None, value: bytes | None) -> Self:
        """The view after one more record."""
        return self.apply_all([(key, value)])

    def apply_all(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> Self:
        """The view after more records, in their order; itself if they say nothing new."""
        found: dict[str, dict[Any, Any]] = {}
        reset, shutdown = self.reset, self.shutdown
        for key, value in records:
            change = decode(key, value)
            if change is None:
                continue
            kind, whose = change.place
            if kind is ResetEpoch:
                reset = change.entry if isinstance(change.entry, ResetEpoch) else ResetEpoch(0)
                continue
            if kind is Shutdown:
                shutdown = change.entry if isinstance(change.entry, Shutdown) else None
                continue
            field = _FIELDS[kind]
            entries = found.setdefault(field, dict(getattr(self, field)))
            if change.entry is None:
                entries.pop(whose, None)
            else:
                entries[whose] = change.entry
        view = attrs.evolve(self, reset=reset, shutdown=shutdown, **found)
        return self if view == self else view

    def progress_of(self, member_id: str) -> MemberProgress | None:
        """The last report of the member with this id; None if there is none."""
        return next((p for p in self.progress.values() if p.member_id == member_id), None)

    def places_of(self, member: MemberKey) -> list[Place]:
        """The places of entries about a member."""
        kinds = ((MemberProgress, self.progress), (Endpoint, self.endpoints))
        return [(kind, member) for kind, entries in kinds if member in entries]
