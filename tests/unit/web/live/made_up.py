"""Made-up applications for the live page: their readings, with names from the worst of places."""

from __future__ import annotations

from typing import Any

import attrs

from streamlet.admin.advice import Observation
from streamlet.admin.status import document
from streamlet.control.values import MemberKey, MemberProgress, TaskProgress
from streamlet.control.view import ControlView
from streamlet.types import TopicPartition
from streamlet.web.live.values import DescribedTopology, LiveReading
from tests.unit.admin.test_status import group, ids, member

AT_MS = 1_766_000_000_000
#: Texts that a page which takes HTML, or formats, or one direction of writing, gets wrong.
HOSTILE = (
    "<img src=x onerror=\"document.title='broken'\">",
    "</script><script>document.title='broken'</script>",
    "'\"`&amp;&lt;{{7*7}}${7*7}",
    "\u202eevil\u2066\u0000\u0007",
    "javascript:document.title='broken'//",
    "n" * 300,
)


def topology(names: tuple[str, ...] = ("orders", "counts", "out")) -> dict[str, Any]:
    """A described topology of two subtopologies: input, repartition topic, store, output."""
    given, store, out = names
    between = f"{store}-repartition"
    return {
        "subtopologies": [
            {
                "id": 0,
                "sources": [{"name": "read", "topics": [given], "successors": ["map"]}],
                "processors": [{"name": "map", "successors": ["sink-between"]}],
                "sinks": [{"name": "sink-between", "topic": between}],
            },
            {
                "id": 1,
                "sources": [{"name": "again", "topics": [between], "successors": ["count"]}],
                "processors": [{"name": "count", "successors": ["write"], "stores": [store]}],
                "sinks": [{"name": "write", "topic": out}],
                "stores": [
                    {"name": store, "changelog": "log", "key": "str", "value": "int"},
                ],
            },
        ]
    }


@attrs.define
class MadeUp:
    """An application whose clock and offsets a test moves.

    ``owners`` has the instance of each task, ``offsets`` the committed position, ``ends`` the ends.
    """

    owners: dict[str, str]
    names: tuple[str, ...] = ("orders", "counts", "out")
    at_ms: int = AT_MS
    committed: int = 0
    end: int = 0
    output: int = 0
    generation_reason: str = "joined"
    problem: str | None = None
    late: int = 0
    stopped: frozenset[str] = frozenset()
    learners: dict[str, str] = attrs.field(factory=dict)
    letters: frozenset[str] | None = frozenset({"letters"})

    @classmethod
    def of(cls, instances: int, **given: Any) -> MadeUp:
        """Two tasks of each instance; the first one is of subtopology 0, the other of 1."""
        made = {f"0_{n}": f"h{n + 1}" for n in range(instances)}
        return cls(made | {f"1_{n}": f"h{n + 1}" for n in range(instances)}, **given)

    def reading(self) -> LiveReading:
        """The reading of now."""
        hosts = sorted({*self.owners.values(), *self.learners.values()})
        live = group(
            *(
                member(
                    host,
                    active=ids(" ".join(t for t, owner in self.owners.items() if owner == host)),
                    learner=ids(" ".join(t for t, to in self.learners.items() if to == host)),
                )
                for host in hosts
            )
        )
        view = ControlView(progress={MemberKey(f"process-{h}", 0): self._said(h) for h in hosts})
        input_topic = TopicPartition(self.names[0], 0)
        seen = Observation(
            self.at_ms - AT_MS, {input_topic: self.committed}, {input_topic: self.end}
        )
        own = {TopicPartition(self.names[2], 0): self.output, TopicPartition("log", 0): 1_000}
        if self.letters:
            own |= {TopicPartition(topic, 0): 3 for topic in self.letters}
        return LiveReading(
            self.at_ms,
            document(live, seen.lag(), control=view),
            seen,
            view,
            DescribedTopology.of(topology(self.names)),
            starts=dict.fromkeys(own, 0),
            ends=own,
            sizes={TopicPartition("log", 0): 50_000},
            letters=self.letters,
        )

    def _said(self, host: str) -> MemberProgress:
        """The report of a host's member."""
        running = [
            TaskProgress(
                *(task, "active", "stopped" if task in self.stopped else "running"),
                problem=self.problem if task == "0_0" else None,
                late=self.late if task == "1_0" else None,
            )
            for task, owner in self.owners.items()
            if owner == host
        ]
        copies = [
            TaskProgress(task, "learner", "learning", 600, 400, 1_000, 200.0, 3.0)
            for task, to in self.learners.items()
            if to == host
        ]
        return MemberProgress(
            *(f"process-{host}", 0, f"{host}-0", f"id-{host}-0", self.at_ms, "RUNNING", 12),
            tasks=(*running, *copies),
            latencies=((self.names[2], 40 + len(host)),),
        )

    def later(self, ms: int = 1_000) -> None:
        """Let time go by."""
        self.at_ms += ms
