"""Groups as a coordinator describes them, written down in short."""

from __future__ import annotations

from typing import Any

from streamlet.admin.snapshot import GroupSnapshot, read
from streamlet.assignor.values import Copy
from streamlet.coordinator.messages import GroupDescription, MemberDescription
from streamlet.rebalance.values import Assignment, Subscription
from streamlet.rebalance.wire import encode_assignment, encode_subscription
from streamlet.types import TaskId


def ids(text: str) -> frozenset[TaskId]:
    return frozenset(map(TaskId.parse, text.split()))


def member(
    name: str,
    active: str = "",
    *,
    number: int = 0,
    copies: dict[str, Copy] | None = None,
    key: str = "",
    imbalance: float | None = None,
    **told: Any,
) -> MemberDescription:
    """A member ``h1-0`` with member id ``id-h1-0`` of instance ``process-h1``."""
    subscription = Subscription(
        key or f"process-{name}",
        name,
        number,
        1.0,
        1,
        (bytes(8), bytes(8)),
        {TaskId.parse(text): copy for text, copy in (copies or {}).items()},
        joined_generation=3,
        stateful=frozenset({0}),
        imbalance=imbalance,
    )
    signature = {"leader": "id-h1-0", "generation": 7} if name == "h1" and number == 0 else {}
    assignment = Assignment(**{"active": ids(active), **signature, **told})
    return MemberDescription(
        f"id-{name}-{number}",
        None,
        f"client-{name}",
        "localhost",
        encode_subscription(subscription),
        encode_assignment(assignment),
    )


def group(*members: MemberDescription, state: str = "Stable") -> GroupSnapshot:
    return read(GroupDescription("flights", state, "stream", "streamlet-v1", members))
