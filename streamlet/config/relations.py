"""Relations between settings: defaults that follow from others, and sets that cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamlet.config.memory_rows import memory_problems, shares, with_queues

if TYPE_CHECKING:
    from streamlet.config.table import Settings

#: Kafka Streams commits ten times as often where readers wait for the commit.
_EXACTLY_ONCE_COMMIT_MS = 100

#: What the default transaction timeout leaves beyond the longest wait for the group.
_TRANSACTION_MARGIN_MS = 5_000

#: Most that a request to the group coordinator can carry: a member with more never joins.
_MOST_MS = 2**31 - 1
#: librdkafka makes no topic with more.
MOST_REPLICAS = 10_000

#: (short, how often it must fit, into what, else what)
_FITS = (
    ("heartbeat.interval.ms", 3, "session.timeout.ms", "one lost heartbeat could be fatal"),
    ("heartbeat.interval.ms", 3, "rebalance.timeout.ms", "a rebalance could be noticed too late"),
    ("handover.timeout.ms", 1, "rebalance.timeout.ms", "a hand-over could make a join too late"),
    ("commit.interval.ms", 1, "rebalance.timeout.ms", "a commit could make a join too late"),
)


def derived(settings: Settings) -> dict[str, Any]:
    """Defaults that follow from other settings, by attribute; nothing that was given."""
    found: dict[str, Any] = {}
    if settings.memory_max_bytes is not None:
        found |= shares(settings.memory_max_bytes, settings.given)
        found["clients"] = with_queues(settings.memory_max_bytes, settings.clients)
    if settings.processing_guarantee != "exactly_once":
        return found
    commit_ms = settings.commit_interval_ms
    if "commit.interval.ms" not in settings.given:
        found["commit_interval_ms"] = commit_ms = _EXACTLY_ONCE_COMMIT_MS
    if "transaction.timeout.ms" not in settings.given:
        least = _longest_wait_ms(settings, commit_ms) + _TRANSACTION_MARGIN_MS
        found["transaction_timeout_ms"] = max(settings.transaction_timeout_ms, least)
    return found


def contradictions(settings: Settings) -> list[str]:
    """Settings that are fine alone and cannot be together, a line each."""
    problems = [
        f"{short} = {settings[short]} is too long for {long} = {settings[long]}: "
        f"expected at most {settings[long] // times}, else {why}"
        for short, times, long, why in _FITS
        if settings[short] * times > settings[long]
    ]
    problems += [
        f"{key} = {settings[key]}: expected at most {_MOST_MS}, which is some 24 days"
        for key in ("session.timeout.ms", "rebalance.timeout.ms")
        if settings[key] > _MOST_MS
    ]
    replicas = settings.replication_factor
    if replicas == 0 or replicas > MOST_REPLICAS:
        problems.append(
            f"replication.factor = {replicas}: expected 1 or more, up to {MOST_REPLICAS}, or -1 "
            "for the broker's default"
        )
    least = _longest_wait_ms(settings, settings.commit_interval_ms)
    exactly_once = settings.processing_guarantee == "exactly_once"
    isolation = settings.clients.get("consumer", {}).get("isolation.level", "read_committed")
    if exactly_once and isolation != "read_committed":
        problems.append(
            f"consumer.isolation.level = {isolation}: processing.guarantee = exactly_once reads "
            "committed records only"
        )
    if exactly_once and settings.transaction_timeout_ms <= least:
        problems.append(
            f"transaction.timeout.ms = {settings.transaction_timeout_ms} must exceed {least}: "
            f"rebalance.timeout.ms = {settings.rebalance_timeout_ms} and the longer of "
            f"session.timeout.ms = {settings.session_timeout_ms} and "
            f"commit.interval.ms = {settings.commit_interval_ms}"
        )
    return [*problems, *memory_problems(settings), *settings.http_problems()]


def _longest_wait_ms(settings: Settings, commit_ms: int) -> int:
    """The longest time a transaction may have to stay open while the group rebalances."""
    return settings.rebalance_timeout_ms + max(settings.session_timeout_ms, commit_ms)


def missing_tags(settings: Settings) -> list[str]:
    """Tags by which standbys are spread that an instance does not have, a line each.

    Commands that look at a group need none, so it is asked when an instance starts.
    """
    own = ", ".join(settings.instance_tags) or "none"
    return [
        f"rack.aware.assignment.tags = {tag}: the instance has no such tag; instance.tags "
        f"({own}) must name it, as in instance.tags = {tag}=VALUE"
        for tag in settings.rack_aware_assignment_tags
        if tag not in settings.instance_tags
    ]
