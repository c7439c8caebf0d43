"""A protocol of members that share two tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from streamlet.assignor.values import Copy
from streamlet.rebalance.values import Assignment, NeedMetadata, RunAssignor
from streamlet.types import TaskId


class TwoTasks:
    """Gives tasks 0_0 and 0_1 to the members in turn; the assignment is their numbers as text."""

    protocol_type = "stream"

    def __init__(self) -> None:
        self.described: list[tuple[NeedMetadata, Mapping[TaskId, Copy]]] = []
        self.plan: Callable[[RunAssignor], Mapping[str, bytes]] | None = None

    def subscribe(
        self, need: NeedMetadata, copies: Mapping[TaskId, Copy]
    ) -> tuple[tuple[str, bytes], ...]:
        self.described.append((need, copies))
        return (("p", f"nonce {need.nonce}".encode()),)

    def assign(self, run: RunAssignor) -> Mapping[str, bytes]:
        if self.plan is not None:
            return self.plan(run)
        members = sorted(m.member_id for m in run.members)
        shares: dict[str, list[str]] = {m: [] for m in members}
        for number in range(2):
            shares[members[number % len(members)]].append(str(number))
        return {m: " ".join(share).encode() for m, share in shares.items()}

    def decode(self, assignment: bytes) -> Assignment:
        return Assignment(frozenset(TaskId(0, int(n)) for n in assignment.split()))
