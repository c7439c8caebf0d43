"""The document of the live page: what readings of an application add up to; pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from streamlet.counted import counted
from streamlet.web.live.graph import TopologyDrawing, delay_shown, latencies
from streamlet.web.live.history import ReadingHistory
from streamlet.web.live.timeline import Timeline
from streamlet.web.live.values import LiveReading


@attrs.define
class LiveDocument:
    """Makes the document of each reading; it remembers those before as far as rates need them."""

    _history: ReadingHistory = attrs.field(factory=ReadingHistory)
    _timeline: Timeline = attrs.field(factory=Timeline)
    _drawing: TopologyDrawing | None = None

    def of(self, reading: LiveReading) -> dict[str, Any]:
        """The document, in plain values, after the next reading."""
        self._history.see(reading)
        self._timeline.see(reading)
        topology = reading.topology
        if topology is None:
            self._drawing = None
        elif self._drawing is None or self._drawing.topology != topology:
            self._drawing = TopologyDrawing(topology)
        drawing = self._drawing
        return {
            "at_ms": reading.at_ms,
            "application": reading.status["application"],
            "status": {**reading.status, "handovers": [*_handovers(reading)]},
            "graph": None if drawing is None else drawing.document(reading, self._history),
            "totals": self._totals(reading),
            "stores": _stores(reading),
            "letters": self._letters(reading),
            "errors": [*_errors(reading.status)],
            "timeline": self._timeline.events(),
        }

    def _totals(self, reading: LiveReading) -> dict[str, Any]:
        """The figures of the whole application.

        ``delay`` is from arrival to commit, ``latency`` from a record to its output.
        """
        done, delays = self._history.committed_rates(), self._history.delays()
        worst = max(delays.values(), key=lambda one: one.ms, default=None)
        status = reading.status
        members = [one for i in status["instances"] for one in i["members"]]
        return {
            "instances": len(status["instances"]),
            "members": len(members),
            "tasks": sum(t["role"] == "active" for m in members for t in m["tasks"]),
            "rate": sum(done.values()) if done else None,
            "lag": sum(n for parts in status["input_lag"].values() for n in parts.values()),
            "latency": max(latencies(status).values(), default=None),
            "delay": delay_shown(worst),
            "delays": {topic: delay_shown(one) for topic, one in sorted(delays.items())},
            "late": sum(t["late"] or 0 for m in members for t in m["tasks"]),
            "dropped": sum(t["dropped"] or 0 for m in members for t in m["tasks"]),
        }

    def _letters(self, reading: LiveReading) -> list[dict[str, Any]] | None:
        """The topics of dead letters with their records; None: it is not known which there are."""
        if reading.letters is None:
            return None
        rates = self._history.written_rates()
        return [
            {"topic": topic, "records": reading.records(topic), "rate": rates.get(topic)}
            for topic in sorted(reading.letters)
        ]


def _stores(reading: LiveReading) -> list[dict[str, Any]]:
    found = reading.topology.stores if reading.topology is not None else []
    return [
        {
            "name": store.name,
            "subtopology": part,
            "key": store.key,
            "value": store.value,
            "changelog": store.changelog,
            "records": reading.records(store.changelog) if store.changelog else None,
            "bytes": reading.bytes_of(store.changelog) if store.changelog else None,
        }
        for part, store in found
    ]


def _handovers(reading: LiveReading) -> Iterator[dict[str, Any]]:
    """The hand-overs, each with the bytes that its learner has still to read, about."""
    per_record = _bytes_a_record(reading)
    for one in reading.status["handovers"]:
        known = one["restored"] is not None and one["end"] is not None
        left = max(0, one["end"] - one["restored"]) if known else None
        size = per_record.get(int(one["task"].partition("_")[0]))
        about = None if left is None or size is None else round(left * size)
        yield {**one, "left": left, "bytes_left": about}


def _bytes_a_record(reading: LiveReading) -> dict[int, float]:
    """The mean size of a changelog record on disk, by subtopology, where brokers tell sizes."""
    sums: dict[int, list[int]] = {}
    for part, store in reading.topology.stores if reading.topology is not None else ():
        if store.changelog is not None:
            records, size = reading.records(store.changelog), reading.bytes_of(store.changelog)
            if records and size is not None:
                both = sums.setdefault(part, [0, 0])
                both[0] += records
                both[1] += size
    return {part: size / records for part, (records, size) in sums.items()}


def _errors(status: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The errors there are, each with its subject."""
    for instance in status["instances"]:
        for member in instance["members"]:
            if member["disk_fails"]:
                yield {"about": member["member"], "text": "its disk fails"}
            for task in member["tasks"]:
                for text in (task.get("problem"), task.get("misplaced")):
                    if text:
                        yield {"about": f"{task['task']} on {member['member']}", "text": text}
    for topic, parts in status["unread"].items():
        waiting = counted(sum(parts.values()), "record")
        text = f"partitions {', '.join(parts)} are read by no task: {waiting}"
        yield {"about": topic, "text": text}
    for one in status["unassigned"]:
        yield {"about": one["task"], "text": "no member has it"}
    for one in status["violations"]:
        yield {"about": one["rule"], "text": one["text"]}
    if status["shutdown"] is not None:
        by, reason = status["shutdown"]["by"], status["shutdown"]["reason"]
        yield {"about": f"shut down by {by}", "text": reason}
