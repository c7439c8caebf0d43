"""``python -m bench queries-moves --handovers 100 --kills 20``: answers while tasks move.

Instances join and leave under load until so many tasks have been handed over, then workers are
killed in turn. Meanwhile readers ask all instances for keys in turn, over HTTP, each time at least
for the position of the last answer for that key, and wait for the answer. During kills they also
take standbys that are ``STALE_S`` behind. ``wrong`` are answers with a smaller count than an
earlier one, or without the key; ``stale`` those behind the position asked for, or further behind
than they say or may be; ``refused`` those that an instance which stays has not given in 9 s.
``over_100_ms`` counts answers in hand-overs that took longer. ``bare`` are the answers of a server
that does nothing else, asked just before each of them: what took long there was the machine.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import random
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Any
from urllib.parse import quote, urlsplit

import attrs

from bench.bare_answers import answering
from bench.broker import serving
from bench.crash import MOST_KILLS
from bench.handover_gaps import summary
from bench.handover_instances import Instance, wait_until
from bench.handover_load import keys_in_turn
from bench.handover_stage import Stage, loaded
from bench.rounds import tell

#: Records a second.
RATE = 2_000
PARTITIONS, INSTANCES, READERS = 4, 2, 3
#: How far behind standbys may be that answer while a worker is dead, s.
STALE_S = 30
#: The line in which an instance says where it answers queries.
SERVES = re.compile(r"queries are answered on (http://[^ \",]+)")
_MOST_MS = 100.0
#: States of an instance whose worker has begun; before, a readiness probe keeps readers away.
_READY = ("RUNNING", "REBALANCING")
_STEADY_S, _AFTER_S = 1.0, 3.0
#: Answers after each kill before the next one, at least.
_ENOUGH = 50
#: How long a reader waits between two questions, s.
_PAUSE_S = 0.005
_CONFIG = {"http.port": "0", "commit.interval.ms": "500", "num.standby.replicas": "1"}


def run(given: int | None, keys: int, handovers: int, kills: int) -> dict[str, Any]:
    """The result as it is printed. ``given`` is the rate of records; None: ``RATE``.

    Raises:
        MeasurementError: a process failed.
    """
    rate = given or RATE
    with (
        serving() as bootstrap,
        answering() as bare,
        loaded(
            *(bootstrap, _CONFIG, rate, keys), partitions=PARTITIONS, instances=INSTANCES
        ) as stage,
    ):
        stage.instances.await_balance(_STEADY_S)
        readers = Readers(stage, keys_in_turn(keys, PARTITIONS), bare)
        with readers.reading():
            moved = _hand_over(stage, readers, handovers)
            killed = _kill(stage, readers, kills)
        miscounted = stage.written(stage.finish())[2]
    return {
        "workload": "queries-moves",
        "rate": rate,
        "handovers": moved,
        "kills": killed,
        **readers.result(),
        "right": not (readers.wrong or readers.stale or miscounted),
    }


def _hand_over(stage: Stage, readers: Readers, wanted: int) -> int:
    """Have instances leave and join until so many tasks were handed over; how many were."""
    seen = 0
    readers.phase = "handover"
    while seen < wanted:
        leaver = stage.instances.live[0]
        seen += len(leaver.tasks)
        readers.leaving.add(leaver.name)
        leaver.drain()
        stage.instances.await_balance(_STEADY_S)
        joined = stage.instances.start()
        stage.instances.await_balance(_AFTER_S)
        seen += len(joined.tasks)
        tell(f"{seen} of {wanted} hand-overs: {readers.told()}")
    return seen


def _have_come(readers: Readers, wanted: int) -> bool:
    """True once so many questions were answered beside kills."""
    return readers.answers("kill") >= wanted


def _kill(stage: Stage, readers: Readers, wanted: int) -> int:
    """Kill the workers of the instances in turn, as soon as all tasks run again."""
    for number in range(wanted):
        if number and not number % MOST_KILLS:
            _replace(stage, readers)
        stage.instances.await_balance(_STEADY_S)
        instance = stage.instances.live[number % INSTANCES]
        readers.phase = "kill"
        answers = readers.answers("kill")
        _killed(instance)
        wait_until(partial(_have_come, readers, answers + _ENOUGH), "answers again")
        stage.instances.await_balance(_STEADY_S)
        tell(f"{number + 1} of {wanted} kills: {readers.told()}")
    return wanted


def _replace(stage: Stage, readers: Readers) -> None:
    """Have others in place of the instances, which would give up after more kills."""
    for leaver in stage.instances.live:
        stage.instances.start()
        stage.instances.await_balance(_STEADY_S)
        readers.leaving.add(leaver.name)
        leaver.drain()


def _killed(instance: Instance) -> None:
    """Kill an instance's worker, and wait for its successor."""
    before = instance.pid
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: instance.pid != before, f"{instance.name} has another worker")


@attrs.define(eq=False)
class Seen:
    """The last answer for a key: the count, and its position as a header has it."""

    count: int = 0
    position: dict[str, dict[str, int]] = attrs.field(factory=dict)


@attrs.define(eq=False)
class KnownUrl:
    """Where an instance answers, and how many of the lines that it wrote were looked at for it."""

    url: str | None = None
    lines: int = 0


@attrs.define(eq=False)
class Readers:
    """Threads that ask for one key after another.

    Args:
        stage: its living instances are asked once they are ready, but those that are leaving.
        keys: to ask for.
        bare: the address of a server that only answers.
    """

    stage: Stage
    keys: list[bytes]
    bare: str
    phase: str = "calm"
    leaving: set[str] = attrs.field(factory=set)
    took: dict[str, list[float]] = attrs.field(factory=dict)
    bare_took: dict[str, list[float]] = attrs.field(factory=dict)
    wrong: list[str] = attrs.field(factory=list)
    stale: list[str] = attrs.field(factory=list)
    refused: dict[str, int] = attrs.field(factory=dict)
    #: Answers by standbys and learners.
    copies: int = 0
    _seen: dict[bytes, Seen] = attrs.field(factory=dict)
    _urls: dict[str, KnownUrl] = attrs.field(factory=dict)
    _over: threading.Event = attrs.field(factory=threading.Event)
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read during the block."""
        threads = [
            threading.Thread(target=self._read, args=(number,), daemon=True)
            for number in range(READERS)
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in threads:
                thread.join()

    def answers(self, phase: str) -> int:
        """The number of answers in a phase."""
        return len(self.took.get(phase, ()))

    def told(self) -> str:
        """A line of progress."""
        answers = {phase: len(took) for phase, took in self.took.items()}
        longest = {phase: round(max(took), 1) for phase, took in self.took.items()}
        found = f"{answers} answers, longest {longest} ms, {self.copies} by copies"
        return f"{found}, wrong {len(self.wrong)}, stale {len(self.stale)}, refused {self.refused}"

    def result(self) -> dict[str, Any]:
        """The part of the result that readers know."""
        for text in (*self.wrong[:20], *self.stale[:20]):
            tell(text)
        return {
            "answers": {phase: len(took) for phase, took in self.took.items()},
            **_times(self.took),
            "bare": _times(self.bare_took),
            "by_copies": self.copies,
            "refused": self.refused,
            "wrong": len(self.wrong),
            "stale": len(self.stale),
        }

    def _read(self, number: int) -> None:
        chance = random.Random(number)
        while not self._over.wait(_PAUSE_S):
            ready = [one for one in self.stage.instances.live if one.state in _READY]
            asked = [one for one in ready if one.name not in self.leaving]
            served = [(one, url) for one in asked if (url := self._url(one)) is not None]
            if served:
                self._ask_bare()
                self._ask(chance.choice(self.keys), *chance.choice(served))

    def _ask_bare(self) -> None:
        phase, began = self.phase, time.perf_counter()
        _answer(self.bare, "/", {})
        took = (time.perf_counter() - began) * 1000
        with self._lock:
            self.bare_took.setdefault(phase, []).append(took)

    def _ask(self, key: bytes, instance: Instance, url: str) -> None:
        with self._lock:
            seen, phase = self._seen.setdefault(key, Seen()), self.phase
            count, position = seen.count, seen.position
        most = f"&max_staleness={STALE_S}" if phase == "kill" else ""
        began = time.perf_counter()
        try:
            headers = {"Streamlet-At-Least": json.dumps(position)} if position else {}
            path = f"/stores/counts/{quote(key)}?timeout=9{most}"
            status, body = _answer(url, path, headers)
            found = json.loads(body)
        except (OSError, http.client.HTTPException, ValueError):
            stays = instance.name not in self.leaving and url == self._url(instance)
            if stays and self.phase != "kill":
                self._note_refused(phase, f"{instance.name} does not answer")
            return
        took = (time.perf_counter() - began) * 1000
        with self._lock:
            if status not in (200, 404):
                if instance.name not in self.leaving:
                    self.refused[phase] = self.refused.get(phase, 0) + 1
                    tell(f"{instance.name} refuses after {took:.0f} ms: {found}")
                return
            self.took.setdefault(phase, []).append(took)
            self._judge(key, count, position, found, most != "")
            now = _count(found)
            if now >= seen.count:
                seen.count, seen.position = now, found.get("position", seen.position)

    def _url(self, instance: Instance) -> str | None:
        """The address of the instance's worker; of the newest, if it has had several."""
        with self._lock:
            known = self._urls.setdefault(instance.name, KnownUrl())
            new = instance.said[known.lines :]
            known.lines += len(new)
            if served := SERVES.findall("".join(new)):
                known.url = served[-1]
            return known.url

    def _note_refused(self, phase: str, why: str) -> None:
        with self._lock:
            self.refused[phase] = self.refused.get(phase, 0) + 1
        tell(why)

    def _judge(
        self, key: bytes, count: int, asked: dict[str, dict[str, int]], found: Any, taken: bool
    ) -> None:
        now, behind_ms = _count(found), found.get("staleness_ms", 0)
        if now < max(count, 1):
            self.wrong.append(f"{key!r}: {now} after {count}: {found}")
        self.copies += behind_ms > 0
        given = found.get("position", {})
        short = [
            (topic, number)
            for topic, offsets in asked.items()
            for number, offset in offsets.items()
            if given.get(topic, {}).get(number, -1) < offset
        ]
        if short or behind_ms > (STALE_S * 1000 if taken else 0):
            self.stale.append(f"{key!r}: asked for {asked}, {taken=}: {found}")


def _answer(url: str, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
    """The status and the body of an answer, over a connection of its own."""
    with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)) as connection:
        connection.request("GET", path, None, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


def _times(took: dict[str, list[float]]) -> dict[str, Any]:
    """How long answers took in each phase, and how many of hand-overs took too long."""
    moved, killed = took.get("handover"), took.get("kill")
    return {
        "handover_ms": summary(moved) if moved else None,
        "kill_ms": summary(killed) if killed else None,
        "over_100_ms": sum(one > _MOST_MS for one in moved or ()),
    }


def _count(found: Any) -> int:
    if "value" not in found:
        return 0
    return int.from_bytes(base64.b64decode(found["value"])[:8], "big")
