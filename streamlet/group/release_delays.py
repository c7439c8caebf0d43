"""Staggers the releases of one plan over time.

All at once, each of the dozen steps from a stop to the first record at the new home would wait for
all the others'. So they take turns, as far apart as there is time, while their tasks go on. The
leader gives the turns: those that followed from the tasks' numbers came as close as 90 ms.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamlet.assignor.values import MemberPlan

#: Within how long all turns come, ms: some eight hand-overs, one after the other. The first turn
#: comes when what the rebalance and the last of the learning brought about is over.
TURNS_MS = 1_000
FIRST_TURN_MS = 200


def release_delays(members: Mapping[str, MemberPlan]) -> dict[str, int]:
    """The delay of each member that is to release tasks, by id, ms from when it learns of it."""
    owners = sorted(member for member, part in members.items() if part.release)
    return {
        member: FIRST_TURN_MS + TURNS_MS * number // len(owners)
        for number, member in enumerate(owners)
    }
