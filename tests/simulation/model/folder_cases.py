"""What the commit numbers and the rules around them are for: each left out, and what breaks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from tests.simulation.model.folders import FolderRules, budget
from tests.simulation.model.folders_steps import Folders

PROTOCOL: Final = FolderRules()
#: Crashes alone need no fence; without one a trace shows what it is about.
UNFENCED: Final = FolderRules(fence=False)
#: A commit that writes nothing, then one that does.
QUIET: Final = FolderRules(inputs="-a")
#: A key with a good record, one that a lost commit wrote after it, and more commits than the
#: cleaner waits for.
AGED: Final = FolderRules(inputs="cabc", done=1, compaction="lagged")
LATE: Final = FolderRules(inputs="ccab", done=1, compaction="lagged")
#: A copy on the other host, of two keys that are committed.
COPIED: Final = FolderRules(inputs="abc", done=2, follow=True)


@attrs.frozen
class FolderCase:
    """One rule out; S5 breaks. ``mended``: with the rule in the same search finds nothing."""

    rule: str
    faults: tuple[int, ...]
    out: Mapping[str, Any]
    base: FolderRules = UNFENCED
    mended: bool = True

    def with_rule(self) -> Folders:
        """The protocol with the rule in."""
        return Folders(self.base, self.faults)

    def without_rule(self) -> Folders:
        """The protocol with the rule out."""
        return Folders(attrs.evolve(self.base, **self.out), self.faults)


FOLDER_CASES: Final[dict[str, FolderCase]] = {
    "N1": FolderCase(
        "N1: a number belongs to one commit, also after an unknown outcome",
        budget(1, lose=1),
        {"reuse": True},
    ),
    "N2": FolderCase(
        "N2: the changelog is flushed before the OffsetCommit",
        budget(1, crash=1),
        {"order": "commit, flush, write"},
    ),
    "N2b": FolderCase(
        "N2: the local store is written after the commit, and never believed ahead of it",
        budget(1, crash=1),
        {"order": "flush, write, commit", "ahead": False},
    ),
    "N3": FolderCase(
        "N3: a restore skips what is beyond the commit",
        budget(1, crash=1),
        {"numbers": False},
    ),
    "N4": FolderCase(
        "N4: the first flush writes skipped keys again",
        budget(1, crash=1),
        {"rewrite": "nothing"},
    ),
    "N4b": FolderCase(
        "N4: skipped keys without a value are deleted again",
        budget(1, crash=1),
        {"rewrite": "values"},
    ),
    "N4c": FolderCase(
        "N4: a claim carries the old state forward",
        budget(1, crash=1),
        {"carry": False},
    ),
    "N6": FolderCase(
        "N4, N6: what is skipped is written again before the cleaner comes that far",
        budget(2, crash=1, compact=1),
        {"rewrite": "nothing"},
        AGED,
    ),
    "held": FolderCase(
        "no position passes a skipped record that is not written again",
        budget(2, crash=2),
        {"held": False},
    ),
    "held b": FolderCase(
        "no position passes a skipped record that is not written again (then the cleaner comes)",
        budget(3, crash=2, compact=1),
        {"held": False},
        AGED,
    ),
    "V12": FolderCase(
        "N6: the cleaner waits (min.compaction.lag.ms)",
        budget(1, compact=1),
        {"compaction": "free"},
        FolderRules(inputs="cc", done=1, compaction="lagged"),
    ),
    "V12b": FolderCase(
        "C3: what a stranger wrote is written again, or the cleaner keeps only his",
        budget(2, expire=1, compact=1),
        {"strangers": "ignored"},
        LATE,
    ),
    "V14": FolderCase(
        "an active period's first flush writes to each changelog: else a zombie's record may be the"
        " first behind the commit that the successor's commit is taken to contain",
        budget(1, expire=1),
        {"fence": False},
        QUIET,
    ),
    "V14b": FolderCase(
        "what a stranger wrote before that record is written again before the commit",
        budget(1, expire=1),
        {"strangers": "ignored"},
        PROTOCOL,
    ),
    "N5": FolderCase(
        "a copy that notes a position it held back notes the epoch met before that position",
        budget(3, crash=3),
        {"epoch_of": "highest"},
        COPIED,
    ),
}

#: Rules and faults under which nothing may break. What takes more than seconds is in ``LONGER``.
HOLDS: Final[dict[str, Folders]] = {
    "a crash between any two steps": Folders(PROTOCOL, budget(2, crash=2, wipe=1, lose=1)),
    "deletions and commits without a flush": Folders(
        FolderRules(inputs="aA-b"), budget(1, crash=1, wipe=1)
    ),
    "a local write too early costs a restore from zero": Folders(
        FolderRules(order="flush, write, commit", fence=False), budget(2, crash=2, wipe=1)
    ),
    "a zombie": Folders(PROTOCOL, budget(1, expire=1)),
    "a copy that is promoted": Folders(FolderRules(follow=True), budget(1, crash=1)),
    "a copy and a zombie": Folders(FolderRules(follow=True), budget(1, expire=1)),
}

LONGER: Final[dict[str, Folders]] = {
    "three crashes": Folders(PROTOCOL, budget(3, crash=3, wipe=1, lose=1)),
    "crashes within a restore, processing during commits": Folders(
        FolderRules(inputs="abA-", chunks=True, overlap=True, fence=False),
        budget(2, crash=2, wipe=1, lose=1),
    ),
    "a zombie and a crash": Folders(QUIET, budget(2, expire=1, crash=1)),
    "crashes and the cleaner": Folders(AGED, budget(3, crash=2, compact=1)),
    "a zombie and the cleaner": Folders(LATE, budget(2, expire=1, compact=1)),
    "crashes of a copy and of owners": Folders(COPIED, budget(3, crash=3)),
}
