"""The few settings the membership machine needs, checked."""

from __future__ import annotations

import attrs

from streamlet.config import Settings

#: What must be left of the rebalance timeout after the longest wait before a JoinGroup, ms.
JOIN_MARGIN_MS = 1_000


@attrs.frozen
class MembershipConfig:
    """Settings of one member; all times in ms.

    ``parked_commit_after_ms``: under at-least-once, how long a JoinGroup must have been parked
    before commits go on with the old generation; None keeps the strict gate (exactly-once).
    ``announce_joins``: the worker gives tasks up at every join (handover ``surrender``, mode
    ``eager``), so it is announced before each JoinGroup and that waits for it.
    ``protocol_types``: what to join as, the one we want first; empty: what the protocol says, and
    to be refused is the end. ``first_nonce`` must differ between two processes with the same static
    id, wall-clock time will do. ``jitter`` spreads the back-offs of members.
    """

    group: str
    instance_id: str | None = None
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 250
    rebalance_timeout_ms: int = 60_000
    max_poll_interval_ms: int = 300_000
    commit_timeout_ms: int = 5_000
    hold_timeout_ms: int = 10_000
    request_timeout_ms: int = 5_000
    leave_timeout_ms: int = 10_000
    backoff_ms: int = 50
    backoff_max_ms: int = 1_000
    size_backoff_max_ms: int = 30_000
    reduced_for_ms: int = 600_000
    parked_commit_after_ms: int | None = 1_000
    first_nonce: int = 0
    jitter: int = 0
    announce_joins: bool = False
    protocol_types: tuple[str, ...] = ()

    @classmethod
    def from_settings(
        cls,
        group: str,
        settings: Settings,
        *,
        member: int = 0,
        first_nonce: int = 0,
        jitter: int = 0,
        waits: bool = False,
    ) -> MembershipConfig:
        """Take the settings of an application for member number ``member`` of its instance.

        A static id gets the member's number, ``<id>-<n>``. The waits for a commit shrink with a
        short rebalance timeout. ``waits``: records of repartition topics wait for commits, so a
        join that others keep waiting is to stop these for a moment only.
        """
        rebalance_ms = settings.rebalance_timeout_ms
        static = settings.group_instance_id
        at_least_once = settings.processing_guarantee == "at_least_once"
        parked_ms = max(500, settings.commit_interval_ms)
        if waits:
            parked_ms = min(parked_ms, settings.repartition_commit_interval_ms // 4)
        return cls(
            group,
            None if static is None else static_member(static, member),
            settings.session_timeout_ms,
            settings.heartbeat_interval_ms,
            rebalance_ms,
            settings.max_poll_interval_ms,
            commit_timeout_ms=min(5_000, rebalance_ms // 4),
            hold_timeout_ms=min(10_000, rebalance_ms // 2),
            parked_commit_after_ms=parked_ms if at_least_once else None,
            first_nonce=first_nonce,
            jitter=jitter,
        )

    def __attrs_post_init__(self) -> None:
        longest = self.hold_timeout_ms + self.commit_timeout_ms + JOIN_MARGIN_MS
        if longest > self.rebalance_timeout_ms:
            raise ValueError(
                f"rebalance.timeout.ms {self.rebalance_timeout_ms} is too short:"
                f" a member may take {longest} ms to finish a commit before it joins"
            )
        if self.heartbeat_interval_ms * 2 > self.session_timeout_ms:
            raise ValueError(
                f"heartbeat.interval.ms {self.heartbeat_interval_ms} must be at most half of"
                f" session.timeout.ms {self.session_timeout_ms}"
            )


def static_member(instance_id: str, number: int) -> str:
    """The static id of an instance's member."""
    return f"{instance_id}-{number}"


def static_members(instance_id: str | None, members: int) -> list[str]:
    """The static ids of an instance's members; none without an id."""
    if not instance_id:
        return []
    return [static_member(instance_id, number) for number in range(members)]
