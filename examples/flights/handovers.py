"""Tasks that move while the application runs: what its instances say, and what the results show.

Who learns a task and who gives it up is in the instances' logs. How long nobody worked on it is in
the results: the broker notes when it took each record, and a task writes one partition of a topic.
"""

from __future__ import annotations

import json
import re
import statistics
from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import attrs

#: What is looked at around an order to hand a task over, and how many windows before it are usual.
BEFORE_MS = 500
AFTER_MS = 1_500
USUAL = 5

_ORDERS = re.compile(r"generation (\d+): (.*)")


@attrs.frozen
class Silence:
    """The longest time without a record in a window, and in the windows before it, ms."""

    longest: int
    usual: float


class Arrivals:
    """When the broker took the records of each partition, ms; told in the order of offsets."""

    def __init__(self) -> None:
        self._times: defaultdict[tuple[str, int], array[int]] = defaultdict(lambda: array("q"))

    def tell(self, topic: str, partition: int, at_ms: int) -> None:
        """A record was taken."""
        times = self._times[topic, partition]
        if not times or at_ms > times[-1]:
            times.append(at_ms)

    @property
    def partitions(self) -> list[tuple[str, int]]:
        """Those with records."""
        return sorted(self._times)

    def around(self, where: tuple[str, int], at_ms: int) -> Silence | None:
        """The longest silence around a moment; None where nothing came before or after."""
        times, length = self._times[where], BEFORE_MS + AFTER_MS
        if len(times) < 2 or not times[0] < at_ms - BEFORE_MS or not times[-1] > at_ms:
            return None
        starts = [at_ms - BEFORE_MS - n * length for n in range(USUAL + 1)]
        longest, *before = [_silence(times, start, start + length) for start in starts]
        usual = [silence for silence in before if silence]
        return Silence(longest, statistics.median(usual)) if usual else None


def _silence(times: Sequence[int], low: int, high: int) -> int:
    """The longest time without a record that touches the window."""
    first, end = max(bisect_left(times, low), 1), min(bisect_right(times, high) + 1, len(times))
    return max((times[i] - times[i - 1] for i in range(first, end)), default=0)


@attrs.define
class Move:
    """One task from one instance to another, told to both in the same generation."""

    task: str
    at_ms: int = 0
    source: str = ""
    target: str = ""


class Handovers:
    """Follows the logs of the instances.

    Args:
        outputs: of each subtopology with state, the topic whose partitions its tasks write.
    """

    def __init__(self, outputs: dict[int, str]) -> None:
        self._outputs = outputs
        self._read: defaultdict[str, int] = defaultdict(int)
        self._learning: defaultdict[str, frozenset[str]] = defaultdict(frozenset)
        self._open: dict[tuple[str, str], Move] = {}
        self.moves: list[Move] = []

    def read(self, logs: dict[str, Path]) -> list[str]:
        """What the instances said since the last call, as lines for people."""
        news: list[str] = []
        for name, log in logs.items():
            for line in self._lines(name, log):
                said = json.loads(line)
                if found := _ORDERS.match(said["message"]):
                    news += self._orders(name, found[1], _tasks(found[2]), said["at_ms"])
        return news

    def _lines(self, name: str, log: Path) -> Iterable[bytes]:
        """Complete lines of the log that were not read yet, as far as they are the logger's."""
        if not log.exists():
            return []
        with log.open("rb") as file:
            file.seek(self._read[name])
            data = file.read()
        end = data.rfind(b"\n") + 1
        self._read[name] += end
        return [line for line in data[:end].splitlines() if line.startswith(b"{")]

    def _orders(
        self, name: str, generation: str, tasks: dict[str, frozenset[str]], at_ms: int
    ) -> list[str]:
        news = []
        learning = tasks.get("learner", frozenset())
        new = learning - self._learning[name]
        self._learning[name] = learning
        if new:
            news.append(f"{name} learns {' '.join(sorted(new))}")
        for task in sorted(tasks.get("release", ())):
            move = self._move(generation, task)
            move.source, move.at_ms = name, at_ms
        for task in sorted(tasks.get("pending", ())):
            self._move(generation, task).target = name
        told = [key for key, move in self._open.items() if move.source and move.target]
        for key in told:
            move = self._open.pop(key)
            self.moves.append(move)
            news.append(f"{move.task} is warm and goes from {move.source} to {move.target}")
        return news

    def _move(self, generation: str, task: str) -> Move:
        return self._open.setdefault((generation, task), Move(task))

    def report(self, arrivals: Arrivals) -> list[str]:
        """How long nobody worked on tasks that were handed over, and on those that stayed then."""
        lines = [
            f"{len(self.moves)} tasks were handed over; the longest time without a result then:"
        ]
        stayed: list[Silence] = []
        for move in self.moves:
            for where in arrivals.partitions:
                silence = arrivals.around(where, move.at_ms)
                if silence is None or where[0] not in self._outputs.values():
                    continue
                if where == self._output(move.task):
                    way = f"{move.task} from {move.source} to {move.target}"
                    lines.append(f"  {way}: {silence.longest} ms, usually {silence.usual:.0f} ms")
                elif not self._moves(where, move.at_ms):
                    stayed.append(silence)
        if stayed:
            most = max(silence.longest for silence in stayed)
            usual = statistics.median(silence.usual for silence in stayed)
            lines.append(f"  tasks that stayed: up to {most} ms, usually {usual:.0f} ms")
        return lines

    def _output(self, task: str) -> tuple[str, int]:
        subtopology, partition = task.split("_")
        return self._outputs.get(int(subtopology), ""), int(partition)

    def _moves(self, where: tuple[str, int], at_ms: int) -> bool:
        """Whether the task that writes there moved at about that time."""
        near = (m for m in self.moves if abs(m.at_ms - at_ms) <= BEFORE_MS + AFTER_MS)
        return any(self._output(move.task) == where for move in near)


def _tasks(said: str) -> dict[str, frozenset[str]]:
    """``active 0_0 0_1, learner 1_0`` by role."""
    words = (part.split() for part in said.split(", "))
    return {role: frozenset(tasks) for role, *tasks in words}
