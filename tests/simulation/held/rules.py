"""The rules of held edges, and the words that a repartition topic has."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple, TypeAlias

import attrs

from streamlet.processing.edges.held_records import HEAD_BYTES

#: Incarnation of a writer task, and epoch of its active period.
Period: TypeAlias = tuple[int, int]
#: A period, and a number of its commits.
Place: TypeAlias = tuple[Period, int]
#: Of each writer the newest period, and the commit of it and the offset in that up to which was
#: processed; or, of the code that ships, the text that it commits.
Notes: TypeAlias = Mapping[int, tuple[Period, int, int]] | str

NO_PERIOD: Period = (0, 0)
NOTHING: Place = (NO_PERIOD, 0)


@attrs.frozen
class Rules:
    """What writers and readers go by; each may be left out."""

    # Writers.
    claim: bool = True  # nothing is written before the period's claim was accepted
    share: bool = True  # what is written behind the share of a commit belongs to the next one
    in_flight: bool = True  # a record says what was accepted, not just its own number
    base: bool = True  # a period begins with a marker that bears the last accepted commit
    everywhere: bool = True  # on every partition, whether it writes there or not
    leap: bool = True  # of a period that committed anything
    first: bool = True  # which is delivered before the first commit
    owed: bool = True  # an accepted commit is told where nothing else tells it
    empty: bool = True  # but none that contains no record
    again: bool = True  # a commit that is sent again keeps its number
    in_place: bool = True  # a period begins again in place only if all it wrote is committed
    incarnation: bool = True  # where the commits of a task are lost, it begins another one
    bound: bool = True  # a writer takes nothing new while much is undecided
    amid: bool = True  # but it ends what it has begun
    # Readers.
    signed: bool = True  # what the task did not sign counts for nothing
    contents: bool = True  # a repetition is told by all of it, not by its sequence
    numbers: bool = True  # what is decided by a commit is processed by its number, then its offset
    wait: bool = True  # a record is applied once its commit is known to be accepted
    epoch: bool = True  # words of earlier periods are dropped
    ended: bool = True  # what is held of earlier periods is dropped at the base
    unproven: bool = True  # a period without base and commit decides nothing
    skipped: bool = True  # a period that committed ends earlier ones, its base being skipped
    marks: bool = True  # what was applied is known when it is read again
    position: bool = True  # the first record that is held, or not processed, is read again
    processed: bool = True  # notes are of what was processed, not of what was taken


class Word(NamedTuple):
    """A record of a held edge, or a marker, which bears a base and no value.

    ``data`` is what the code that ships wrote for it; None: a null. Who cannot sign may copy a
    word, and change its sequence and its value.
    """

    writer: int
    period: Period
    number: int
    accepted: int
    sequence: int
    value: Hashable = None
    base: Place | None = None
    data: bytes | None = b""
    signed: bool = True

    @property
    def commit(self) -> tuple[object, ...]:
        """What tells which commit contains it."""
        return self.writer, self.period, self.number, (self.data or b"")[:HEAD_BYTES]
