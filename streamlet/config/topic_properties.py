"""Settings of internal topics: what follows the prefix ``topic.``, for all topics or for one.

``topic.max.message.bytes`` is for every repartition topic and changelog, and
``topic.shop-counts-changelog.max.message.bytes`` for one topic.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any

from streamlet.config.values import ValueKind, boolean, choice, duration, fraction, size, whole

PREFIX = "topic"

#: Names that Kafka knows and that may be given, with the kind of value.
TOPIC_PROPERTIES: Mapping[str, ValueKind[Any]] = {
    "compression.gzip.level": whole(-1),
    "compression.lz4.level": whole(1),
    "compression.type": choice("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
    "compression.zstd.level": whole(-131_072),
    "delete.retention.ms": duration(),
    "file.delete.delay.ms": duration(),
    "flush.messages": whole(1),
    "flush.ms": duration(),
    "index.interval.bytes": size(),
    "max.compaction.lag.ms": duration(1),
    "max.message.bytes": size(),
    "message.timestamp.after.max.ms": duration(),
    "message.timestamp.before.max.ms": duration(),
    "message.timestamp.difference.max.ms": duration(),
    "min.cleanable.dirty.ratio": fraction(zero=True),
    "min.insync.replicas": whole(1),
    "preallocate": boolean(),
    "segment.bytes": size(),
    "segment.index.bytes": size(),
    "segment.jitter.ms": duration(),
    "segment.ms": duration(1),
    "unclean.leader.election.enable": boolean(),
}

_PURGED = "records of internal topics are deleted once they are not needed, never by age or size"
_TIERED = "internal topics are compacted or purged, which tiered storage does not support"
_THROTTLED = "it belongs to a reassignment of partitions; kafka-configs.sh sets it"

#: Names that Kafka knows and that streamlet decides, with the reason.
DECIDED: Mapping[str, str] = {
    "cleanup.policy": "changelogs are compacted, those of windows and repartition topics purged",
    "follower.replication.throttled.replicas": _THROTTLED,
    "leader.replication.throttled.replicas": _THROTTLED,
    "local.retention.bytes": _TIERED,
    "local.retention.ms": _TIERED,
    "message.timestamp.type": "records keep their own timestamps",
    "min.compaction.lag.ms": "restored state is exact only if the newest hour is not compacted",
    "remote.log.copy.disable": _TIERED,
    "remote.log.delete.on.disable": _TIERED,
    "remote.storage.enable": _TIERED,
    "retention.bytes": _PURGED,
    "retention.ms": _PURGED,
}

_ALL = (*TOPIC_PROPERTIES, *DECIDED)

#: How much of a misspelt name must be right for the name that was meant to be suggested.
_ALIKE = 0.6


def placed(rest: str) -> tuple[str, str]:
    """The topic and setting in a key behind its prefix; all topics if none is named.

    Raises:
        ValueError: Kafka's topics have no such setting, or streamlet decides it.
    """
    topic, name = _split(rest)
    if name in DECIDED:
        raise ValueError(f"streamlet sets {name} itself: {DECIDED[name]}")
    if name not in TOPIC_PROPERTIES:
        meant = _meant(rest)
        hint = "" if meant is None else f", did you mean {PREFIX}.{meant}?"
        raise ValueError(f"unknown setting of Kafka's topics{hint}")
    return topic, name


def _split(rest: str) -> tuple[str, str]:
    """Cut off the longest name of a setting that the key ends in; topics have dots as well."""
    if rest in _ALL:
        return "", rest
    names = [name for name in _ALL if rest.endswith(f".{name}")]
    name = max(names, key=len, default="")
    return (rest.removesuffix(f".{name}"), name) if name else ("", rest)


def _meant(rest: str) -> str | None:
    """The key that was probably meant by one that names no setting."""
    plain = re.sub(r"[_ ]+", ".", rest.lower())
    found = [
        (difflib.SequenceMatcher(None, plain[cut:], name).ratio(), rest[:cut] + name)
        for cut in (0, *(dot.end() for dot in re.finditer(r"\.", rest)))
        for name in TOPIC_PROPERTIES
    ]
    likeness, meant = max(found)
    return meant if likeness > _ALIKE else None
