"""Reads a changelog while its owner writes it."""

from __future__ import annotations

from collections.abc import Mapping

from streamlet.kafka.ports import Headers, PartitionBatch
from streamlet.logs import get_logger
from streamlet.state.changelog import RecordReader, RecordRun, forget, remember, runs
from streamlet.state.entries import CommitEntry
from streamlet.state.epochs import EpochBound
from streamlet.types import NO_STATE, StateNumber, TopicPartition

log = get_logger(__name__)

#: What Python takes for a record that is held back beside its bytes, and for a run of them.
_RECORD_BYTES, _RUN_BYTES = 120, 600


class HoldingReader(RecordReader):
    """Reads a changelog as its owner writes it, for a copy that follows.

    A record counts once its commit was accepted, which the log tells a little later: an owner
    writes number n + 1 only after commit n was accepted. So the newest number is held back until
    the next one comes. Number 1 of an epoch proves only its claim: records of an earlier epoch that
    are in doubt stay held back until number 2, when all that was in doubt was written again.

    Args:
        name: the partition, for messages.
        highest: highest epoch met before the position that reading starts from.
        claimed: the epoch of the newest claim when reading begins; 0: not known.
    """

    def __init__(self, name: str, highest: int = 0, claimed: int = 0) -> None:
        super().__init__(highest)
        self._name = name
        self._bound = EpochBound(name, claimed)
        self._held: list[RecordRun] = []
        #: Bytes that the records held back take in memory, about.
        self.held_bytes = 0
        #: Where the records begin that were held back and forgotten, and the newest one's number.
        self._forgotten: int | None = None
        self._doubted = NO_STATE
        self._forgot = 0  # how often
        #: The offset to read on from instead of the next one, to be taken by ``back``.
        self._back: int | None = None
        #: Records before this offset were proved to count, before they were forgotten.
        self._proved = 0
        #: Headers of the last record of runs held back, by number.
        self._heads: dict[StateNumber, Headers | None] = {}
        #: Headers of the last record of ``newest``.
        self._head: Headers | None = None

    @property
    def inputs(self) -> Mapping[TopicPartition, int] | None:
        """The input positions of the newest commit that was let through; None: not known."""
        entry = CommitEntry.of(self.newest, self._head)
        return None if entry is None else entry.inputs

    @property
    def held(self) -> int:
        """The number of records held back."""
        return sum(len(run.keys) for run in self._held)

    def position(self, position: int) -> int:
        """``position``, but not past the first record held back or skipped."""
        first = self._held[0].offsets[0] if self._held else position
        forgotten = position if self._forgotten is None else self._forgotten
        return min(super().position(position), first, forgotten)

    def read(self, batch: PartitionBatch) -> tuple[list[bytes], list[bytes | None]]:
        """Keys and rows whose commit is proved by now, in order.

        Where what was forgotten is proved, the rest is left out: ``back`` says where to go on.

        Raises:
            StateError: a record that streamlet did not write, and no claim is known.
        """
        out_keys: list[bytes] = []
        out_values: list[bytes | None] = []
        if self._back is not None:
            return out_keys, out_values
        stop = 0
        for run in runs(self._name, batch):
            stop += len(run.offsets)
            if not self._bound.holds(run, self.highest) or run.state.epoch < self.highest:
                remember(self.skipped, run.keys, run.offsets)
                continue
            self._rises.note(run.state.epoch, run.offsets[0])
            self.highest = run.state.epoch
            proves = run.state.number > 1
            if self._forgotten is not None:
                if proves and self._doubted < run.state:
                    self._go_back(proved=run.offsets[0])
                    break
                self._doubted = run.state
                continue
            if proves and self._held and self._held[-1].state < run.state:
                self._release(len(self._held), out_keys, out_values)
            self._hold(run, None if batch.headers is None else batch.headers[stop - 1])
            if run.offsets[0] < self._proved:
                self._release(len(self._held), out_keys, out_values)
        return out_keys, out_values

    def _hold(self, run: RecordRun, head: Headers | None) -> None:
        self._held.append(run)
        self._heads[run.state] = head
        self.held_bytes += _size(run) + sum(len(value or b"") for _, value in head or ())

    def forget(self) -> None:
        """Let go what is held back: it is read again once it is known to count."""
        if not self._held:
            return
        self._forgotten, self._doubted = self._held[0].offsets[0], self._held[-1].state
        self._forgot += 1
        if self._forgot & (self._forgot - 1) == 0:  # ever fewer of them
            log.warning(
                "%s: records of commit %s from offset %d on take %d KiB while nothing proves that"
                " commit; the copy reads them again once it is proved (%d times so far)",
                *(self._name, tuple(self._doubted), self._forgotten),
                *(self.held_bytes >> 10, self._forgot),
            )
        self._let_go()

    @property
    def forgetful(self) -> bool:
        """True if records that may count were forgotten, and not read again yet."""
        return self._forgotten is not None or self._back is not None

    def back(self) -> int | None:
        """Take the offset to read again from; None if reading goes on, as it does the next time."""
        back, self._back = self._back, None
        return back

    def go_back(self) -> None:
        """Read again what was forgotten, proved or not: the commit that counts is known."""
        if self._forgotten is not None:
            self._go_back(proved=0)

    def _go_back(self, proved: int) -> None:
        assert self._forgotten is not None
        self._back, self._proved = self._forgotten, proved
        self.highest = self._rises.before(self._forgotten)
        self._rises.back_to(self._forgotten)
        self.skipped = {key: at for key, at in self.skipped.items() if at < self._back}
        self._forgotten, self._doubted = None, NO_STATE

    def _let_go(self) -> None:
        self._held, self._heads, self.held_bytes = [], {}, 0

    def agrees_with(self, claimed: int) -> bool:
        """False if what was skipped may count, now that the newest claim is known to be this."""
        return self.highest <= claimed < self._bound.lowest

    def settle(self, limit: StateNumber | None) -> tuple[list[bytes], list[bytes | None]]:
        """Decide which records held back count; the rest is skipped.

        ``limit`` is the state of the commit to start from; None: there is no commit, all counts.
        What lies beyond it is mostly of a commit that failed; whether ``beyond`` proves a later one
        that was accepted, ``open_task.outruns`` says.
        """
        out_keys: list[bytes] = []
        out_values: list[bytes | None] = []
        good = len(self._held)
        if limit is not None:
            good = next((i for i, run in enumerate(self._held) if run.state > limit), good)
        self._release(good, out_keys, out_values)
        for run in self._held:
            self.beyond = max(self.beyond, run.state)
            remember(self.skipped, run.keys, run.offsets)
        self._let_go()
        if limit is not None and self.newest > limit:
            self.beyond = max(self.beyond, self.newest)
        return out_keys, out_values

    def _release(self, count: int, out_keys: list[bytes], out_values: list[bytes | None]) -> None:
        for run in self._held[:count]:
            out_keys += run.keys
            out_values += run.values
            self.held_bytes -= _size(run)
            if run.state >= self.newest:
                self.newest, self._head = run.state, self._heads.get(run.state)
            forget(self.skipped, run.keys, run.offsets)
        del self._held[:count]
        if not self._held:
            self._let_go()


def _size(run: RecordRun) -> int:
    size = sum(map(len, run.keys)) + sum(map(len, filter(None, run.values)))
    return size + _RECORD_BYTES * len(run.keys) + _RUN_BYTES
