"""The time indexes of window stores' changelogs: up to where all records are of expired rows.

An index says of some offsets that no record before them is of a row later than a time. That stays
true whatever is appended, compacted or deleted, so it needs no commit: owners note it of what they
write, readers of what they read, and it is kept beside the changelog's position. Once all rows up
to that time have expired the owner may have the records before the offset deleted, all but the
progress row, which it writes again before (``TaskState.drain``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs

from streamlet.state.drained import Drained
from streamlet.state.store_commits import TaskStore
from streamlet.state.store_specs import StoreSpec
from streamlet.state.window_rows import PROGRESS_KEY, time_of_key
from streamlet.state.window_times import WindowTimes
from streamlet.types import TopicPartition

#: A changelog may be longer than its store's retention asks for by one part in so many.
_PARTS = 8
#: Entries kept, the newest ones: the times of two retentions, so some are always expired.
_MOST = 2 * _PARTS
#: Below all times of rows.
_EVER = -(1 << 63)


@attrs.frozen
class TimeIndex:
    """Offsets, ascending, each with a time that no row in the records before it is later than."""

    entries: tuple[tuple[int, int], ...] = ()

    def noted(self, offset: int, time: int, step_ms: int) -> TimeIndex:
        """The index with another offset; ``time`` need only cover the records since the last.

        Of the times within one step it keeps the last.
        """
        entries = self.entries
        if entries:
            last_offset, last_time = entries[-1]
            offset, time = max(offset, last_offset), max(time, last_time)
            if time // step_ms == last_time // step_ms:
                entries = entries[:-1]
        return TimeIndex((*entries, (offset, time))[-_MOST:])

    def expired(self, kept_from: int) -> int | None:
        """The highest offset whose rows are all before a time; None: there is none."""
        return max((offset for offset, time in self.entries if time < kept_from), default=None)

    def behind(self, offset: int) -> TimeIndex:
        """The index without the entries up to an offset, where the log begins now."""
        return TimeIndex(tuple(entry for entry in self.entries if entry[0] > offset))


class TimeIndexes:
    """The time indexes of one task.

    A changelog without one is one of which it is not known what it holds: an earlier version has
    read it. Then it has one from the next commit of an owner on.

    Args:
        stores: the stores, once they are made.
        specs: the facts about them.
        changelogs: the changelog partition of each store that has one.
    """

    def __init__(
        self,
        stores: Mapping[str, TaskStore],
        specs: Sequence[StoreSpec],
        changelogs: Mapping[str, TopicPartition],
    ) -> None:
        self._stores = stores
        #: Store and step of the changelogs whose rows expire.
        self._expiring = {
            changelogs[spec.name]: (spec.name, max(1, retention // _PARTS))
            for spec in specs
            if spec.window is not None
            and (retention := spec.window.retention_ms) is not None
            and spec.name in changelogs
        }
        #: Replaced, never changed.
        self.known: Mapping[TopicPartition, TimeIndex] = {}
        #: Latest rows that other processes wrote amid ours, since the last commit.
        self._foreign: dict[TopicPartition, int] = {}

    def __contains__(self, changelog: object) -> bool:
        """Tell if it is the changelog of a store whose rows expire."""
        return changelog in self._expiring

    def starts(self) -> dict[TopicPartition, int]:
        """The offsets that changelogs need not reach back beyond, where that is news."""
        found = {tp: index.expired(self._times(tp).kept_from) for tp, index in self.known.items()}
        return {tp: offset for tp, offset in found.items() if offset}

    def with_progress(
        self, again: Mapping[str, tuple[bytes, ...]], starts: Iterable[TopicPartition]
    ) -> dict[str, tuple[bytes, ...]]:
        """``again`` with the progress rows of these: nothing else before their starts counts."""
        names = [self._expiring[tp][0] for tp in starts]
        return {**again, **{name: (*again.get(name, ()), PROGRESS_KEY) for name in names}}

    def read(
        self, changelog: TopicPartition, keys: Iterable[bytes], position: int, *, first: bool
    ) -> None:
        """Note what a reader loaded, up to a position; ``first``: from the changelog's start on."""
        index = TimeIndex() if first else self.known.get(changelog)
        if changelog in self and index is not None:
            self._note(changelog, index, position, _latest(keys))

    def foreign(self, changelog: TopicPartition, keys: Iterable[bytes]) -> None:
        """Note keys that another process wrote to the changelog."""
        if changelog in self:
            self._foreign[changelog] = max(self._foreign.get(changelog, _EVER), _latest(keys))

    def written(self, drained: Drained, positions: Mapping[TopicPartition, int]) -> None:
        """Note a commit of an owner, and where the changelogs ended with it."""
        for tp in self._expiring.keys() & positions.keys():
            columns = drained.columns.get(self._expiring[tp][0])
            time = max(
                self._times(tp).drained_highest,  # all rows of commits before it
                _latest(() if columns is None else columns.keys),
                self._foreign.pop(tp, _EVER),
            )
            index = self.known.get(tp, TimeIndex()).behind(drained.starts.get(tp, 0))
            self._note(tp, index, positions[tp], time)

    def forget(self, changelogs: Iterable[TopicPartition]) -> None:
        """Drop what is known of these: their offsets may come to mean other records."""
        gone = set(changelogs)
        self.known = {tp: index for tp, index in self.known.items() if tp not in gone}

    def take(self, entries: Mapping[TopicPartition, Iterable[tuple[int, int]]]) -> None:
        """Take over entries that were written down."""
        self.known = {tp: TimeIndex(tuple(e)) for tp, e in entries.items() if tp in self._expiring}

    def entries(
        self, changelogs: Iterable[TopicPartition]
    ) -> dict[TopicPartition, tuple[tuple[int, int], ...]]:
        """The entries of these changelogs, to be written down."""
        return {tp: self.known[tp].entries for tp in changelogs if tp in self.known}

    def _note(self, changelog: TopicPartition, index: TimeIndex, offset: int, time: int) -> None:
        _, step_ms = self._expiring[changelog]
        self.known = {**self.known, changelog: index.noted(offset, time, step_ms)}

    def _times(self, changelog: TopicPartition) -> WindowTimes:
        times = getattr(self._stores[self._expiring[changelog][0]], "times", None)
        assert isinstance(times, WindowTimes), changelog
        return times


def _latest(keys: Iterable[bytes]) -> int:
    """The time of the latest row among these; the least there is if there is none."""
    last = max(keys, default=PROGRESS_KEY)
    return _EVER if last == PROGRESS_KEY else time_of_key(last)
