"""The epochs that a reader met in a changelog: where they rose, and which had no owner."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from streamlet.bounded import COMMIT_MAX
from streamlet.errors import StateError
from streamlet.logs import get_logger

if TYPE_CHECKING:
    from streamlet.state.changelog import RecordRun

log = get_logger(__name__)

#: Owners that one reader may have missed: each claims the next epoch.
MOST_CLAIMS = 1 << 20


class EpochBoundaries:
    """The offsets in a changelog at which the highest epoch rose.

    A position that is held back must not be written down with an epoch met behind it: a reader that
    begins there again would take good records of the epoch before for a stale owner's.
    """

    def __init__(self, highest: int) -> None:
        self._epochs = [(-1, highest)]

    def note(self, epoch: int, offset: int) -> None:
        """A record of this epoch lies at the offset."""
        if epoch > self._epochs[-1][1]:
            self._epochs.append((offset, epoch))

    def before(self, position: int) -> int:
        """The highest epoch of the records before a position."""
        return max(epoch for offset, epoch in self._epochs if offset < position)

    def back_to(self, position: int) -> None:
        """Forget the records from a position on, which are read again."""
        self._epochs = [one for one in self._epochs if one[0] < position]


class EpochBound:
    """The epochs that can have had an owner, by the newest ones known; names what had none.

    Args:
        name: the changelog partition, for messages.
        claimed: the epoch of the newest claim; 0: not known.
    """

    def __init__(self, name: str, claimed: int) -> None:
        self._name = name
        self._claimed = claimed
        self._found = 0
        #: The lowest epoch that was out of bounds.
        self.lowest: float = math.inf

    def holds(self, run: RecordRun, highest: int) -> bool:
        """False for records that no owner wrote, which are named; ``highest``: epoch met.

        Raises:
            StateError: one bears no numbers, and as no claim is known the whole log may be another
                program's.
        """
        (epoch, number), offset = run.state, run.offsets[0]
        flaw = run.flaw
        if not run.timed and 0 < self._claimed < epoch:
            flaw = f"{self._name}: the record at offset {offset} is not streamlet's: no time"
        if flaw:
            self._pass_over(flaw)
            return False
        if epoch <= max(self._claimed, highest) + MOST_CLAIMS and number <= COMMIT_MAX:
            return True
        if number <= COMMIT_MAX:
            self.lowest = min(self.lowest, epoch)
        if self._is_told():
            log.warning(
                "%s: the record at offset %d bears epoch %d and commit %d, which no owner had: it"
                " does not count (%d such so far)",
                *(self._name, offset, epoch, number, self._found),
            )
        return False

    def _pass_over(self, flaw: str) -> None:
        if not self._claimed:
            raise StateError(flaw)
        if self._is_told():
            log.warning("%s: it does not count (%d such so far)", flaw, self._found)

    def _is_told(self) -> bool:
        """True for ever fewer of the records that are found."""
        self._found += 1
        return self._found & (self._found - 1) == 0
