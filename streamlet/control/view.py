"""The state that the records of the control topic add up to. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

import attrs

from streamlet.control.records import ControlRecordError, Place, decode
from streamlet.control.values import (
    ALL,
    ChangelogTypes,
    Command,
    Description,
    Endpoint,
    Entry,
    Mark,
    MemberKey,
    MemberProgress,
    Part,
    PauseMark,
    ResetEpoch,
    Shutdown,
    StoreServer,
)

_FIELDS = {
    Mark: "marks",
    MemberProgress: "progress",
    Endpoint: "endpoints",
    StoreServer: "servers",
    Command: "commands",
    ChangelogTypes: "types",
    PauseMark: "pauses",
}
#: Fields of kinds with one entry at most, and what they are without it.
_SINGLE_FIELDS: dict[type[Entry], tuple[str, Any]] = {
    ResetEpoch: ("reset", ResetEpoch(0)),
    Shutdown: ("shutdown", None),
    Description: ("description", None),
}


#: The entries of a kind that are kept, and the bytes of their records. A group has a few for each
#: member, but a client that may write to the topic can write any number.
MOST_ENTRIES, MOST_BYTES = 10_000, 64 << 20


@attrs.frozen
class ControlView:
    """The entries there are; never changed, so that any thread may read it.

    ``marks`` go by the instance's process id, ``progress``, ``endpoints`` and ``servers`` by
    member, ``commands`` by id, in the order in which they came, ``types`` by the changelog's name,
    ``pauses`` by what is paused. Of very many of a kind those are kept that were written last, of
    commands the first; ``dropped`` is how many are not.
    """

    marks: dict[str, Mark] = attrs.field(factory=dict)
    progress: dict[MemberKey, MemberProgress] = attrs.field(factory=dict)
    endpoints: dict[MemberKey, Endpoint] = attrs.field(factory=dict)
    servers: dict[MemberKey, StoreServer] = attrs.field(factory=dict)
    commands: dict[str, Command] = attrs.field(factory=dict)
    types: dict[str, ChangelogTypes] = attrs.field(factory=dict)
    pauses: dict[str, PauseMark] = attrs.field(factory=dict)
    reset: ResetEpoch = attrs.field(factory=lambda: ResetEpoch(0))
    shutdown: Shutdown | None = None
    description: Description | None = None
    dropped: int = 0
    #: Bytes of the record of each entry, by field.
    sizes: dict[str, dict[Any, int]] = attrs.field(factory=dict, repr=False, eq=False)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The subtopologies of the program whose leader noted them last; none without."""
        return () if self.description is None else self.description.parts

    def apply(self, key: bytes | None, value: bytes | None) -> Self:
        """The view after one more record; itself after one that cannot be read."""
        return self.apply_all([(key, value)])

    def apply_all(
        self,
        records: Iterable[tuple[bytes | None, bytes | None]],
        unreadable: Callable[[int, ControlRecordError], None] = lambda _, __: None,
    ) -> Self:
        """The view after more records, in their order; itself if they say nothing new.

        Records that cannot be read are passed over: each client that may write to the topic
        can write any bytes. ``unreadable`` is told the index of each, and why.
        """
        found: dict[str, Any] = {}
        for index, (key, value) in enumerate(records):
            try:
                change = decode(key, value)
            except ControlRecordError as error:
                unreadable(index, error)
                continue
            if change is None:
                continue
            kind, whose = change.place
            if kind in _SINGLE_FIELDS:
                field, absent = _SINGLE_FIELDS[kind]
                found[field] = absent if change.entry is None else change.entry
                continue
            field = _FIELDS[kind]
            if field not in found:
                found[field] = dict(getattr(self, field))
                found.setdefault("sizes", {**self.sizes})[field] = {**self.sizes.get(field, {})}
            entries, sizes = found[field], found["sizes"][field]
            if kind is not Command or change.entry is None:
                entries.pop(whose, None)  # it is the last one then
                sizes.pop(whose, None)
            if change.entry is not None:
                entries[whose] = change.entry
                sizes[whose] = len(key or b"") + len(value or b"")
        dropped = sum(
            _bound(found[field], found["sizes"][field], first=kind is Command)
            for kind, field in _FIELDS.items()
            if field in found
        )
        view = attrs.evolve(self, **found, dropped=self.dropped + dropped)
        return self if view == self else view

    def is_paused(self, subtopology: int) -> bool:
        """True if the tasks of a subtopology are to stand still."""
        return ALL in self.pauses or str(subtopology) in self.pauses

    def progress_of(self, member_id: str) -> MemberProgress | None:
        """The last report of the member with this id; None if there is none."""
        return next((p for p in self.progress.values() if p.member_id == member_id), None)

    @property
    def read_committed(self) -> bool | None:
        """``MemberProgress.read_committed`` of the newest report; None if none says it."""
        reports = [one for one in self.progress.values() if one.read_committed is not None]
        newest = max(reports, key=lambda one: one.at_ms, default=None)
        return None if newest is None else newest.read_committed

    def places_of(self, member: MemberKey) -> list[Place]:
        """The places of entries about a member."""
        return [(kind, member) for kind, entries in self._of_members() if member in entries]

    def members(self) -> set[MemberKey]:
        """The members that entries are about."""
        return {member for _, entries in self._of_members() for member in entries}

    def at(self, place: Place) -> Entry | None:
        """The entry about a member at this place."""
        found = (entries.get(place[1]) for kind, entries in self._of_members() if kind is place[0])
        return next(found, None)

    def _of_members(self) -> tuple[tuple[type[Entry], Mapping[Any, Entry]], ...]:
        return (
            (MemberProgress, self.progress),
            (Endpoint, self.endpoints),
            (StoreServer, self.servers),
        )


def _bound(entries: dict[Any, Any], sizes: dict[Any, int], *, first: bool) -> int:
    """Drop entries, the oldest ones or all but the first, until they are few; how many were."""
    before, total = len(entries), sum(sizes.values())
    for whose in [*(reversed(entries) if first else entries)]:
        if len(entries) <= MOST_ENTRIES and total <= MOST_BYTES:
            break
        del entries[whose]
        total -= sizes.pop(whose, 0)
    return before - len(entries)
