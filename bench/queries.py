"""``python -m bench queries``: answers over HTTP while tasks work at a steady rate.

Two instances with a worker each count records per key. Keys are asked one after another, each at
the instance that has its task (``local``) and at the other one, which asks the first (``routed``);
the ms are those that a client waits on a connection that stays open. ``ratio`` is the rate of
outputs while keys are asked, over that while none is, as the median of the rounds. ``page_age_ms``
is how old the live page of an instance becomes under this load. ``wrong`` counts answers without
the key, or with a smaller count than an earlier one.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import itertools
import json
import math
import statistics
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlsplit

import attrs

from bench import live_page, queries_moves
from bench.broker import serving
from bench.handover_app import names
from bench.handover_load import keys_in_turn
from bench.handover_stage import Stage, loaded
from bench.processes import MeasurementError
from bench.rounds import tell
from streamlet.kafka.murmur2 import partition_of

RATE = 50_000
#: Questions a second of each kind.
ASKED = 100
INSTANCES, PARTITIONS = 2, 4
WARM_S = 5.0

_PARTS = {"p50": 0.5, "p99": 0.99, "max": 1.0}


def chosen(options: argparse.Namespace) -> dict[str, Any]:
    """The result of ``queries``, or of ``queries-moves``."""
    if options.workload == "queries":
        return run(options.rate, options.keys, options.seconds, options.runs)
    return queries_moves.run(options.rate, options.keys, options.handovers, options.kills)


def run(given: int | None, keys: int, seconds: int, runs: int) -> dict[str, Any]:
    """Measure; the result as it is printed. ``given`` is the rate of records; None: ``RATE``.

    Raises:
        MeasurementError: a process failed, or an instance serves no queries.
    """
    rate = given or RATE
    config = {"http.port": "0", "commit.interval.ms": "1000"}
    with (
        serving() as bootstrap,
        loaded(
            *(bootstrap, config, rate, keys), partitions=PARTITIONS, instances=INSTANCES
        ) as stage,
    ):
        time.sleep(WARM_S)
        asking = Asking(keys_in_turn(keys, PARTITIONS), owners(stage))
        ratios = []
        for number in range(runs):
            alone, _ = _outputs_a_second(stage, lambda: time.sleep(seconds))
            beside, asked = _outputs_a_second(stage, lambda: asking.ask_for(seconds))
            ratios.append(beside / alone)
            tell(f"round {number}: {alone:,.0f} outputs/s, {beside:,.0f} in {asked} s of queries")
        ages = live_page.ages_ms(min(asking.owners.values()), seconds)
    return {
        "workload": "queries",
        "rate": rate,
        "asked_a_second": 2 * ASKED,
        "local_ms": _percentiles(asking.took["local"]),
        "routed_ms": _percentiles(asking.took["routed"]),
        "page_age_ms": _percentiles(ages),
        "unanswered": asking.unanswered,
        "wrong": asking.wrong,
        "ratio": round(statistics.median(ratios), 3),
        "right": not asking.wrong,
    }


def owners(stage: Stage) -> dict[int, str]:
    """The address of the instance that has each partition's task.

    Raises:
        MeasurementError: an instance serves no queries, or a task is nowhere.
    """
    found: dict[int, str] = {}
    for one in stage.instances.live:
        served = queries_moves.SERVES.search("".join(one.said))
        if served is None:
            raise MeasurementError(f"{one.name} serves no queries")
        found |= {int(task.partition("_")[2]): served[1] for task in one.tasks}
    if found.keys() != set(range(PARTITIONS)):
        raise MeasurementError(f"tasks are somewhere else: {found}")
    return found


@attrs.define(eq=False)
class Asking:
    """A client that asks for one key after another.

    Args:
        keys: in turn.
        owners: the address that has each partition.
    """

    keys: list[bytes]
    owners: dict[int, str]
    took: dict[str, list[float]] = attrs.field(factory=lambda: {"local": [], "routed": []})
    unanswered: int = 0
    wrong: int = 0
    _seen: dict[bytes, int] = attrs.field(factory=dict)
    _connections: dict[str, http.client.HTTPConnection] = attrs.field(factory=dict)
    _turn: int = 0

    def ask_for(self, seconds: float) -> None:
        """Ask at the rate for so long."""
        began = time.monotonic()
        for number in itertools.count():
            due = began + number / ASKED
            if max(due, time.monotonic()) >= began + seconds:
                return
            time.sleep(max(0.0, due - time.monotonic()))
            key = self.keys[self._turn * 7 % len(self.keys)]
            self._turn += 1
            home = self.owners[partition_of(key, PARTITIONS)]
            for url in sorted(set(self.owners.values())):
                self._ask(key, url, "local" if url == home else "routed")

    def _ask(self, key: bytes, url: str, kind: str) -> None:
        connection = self._connections.get(url)
        if connection is None:
            connection = self._connections[url] = http.client.HTTPConnection(urlsplit(url).netloc)
        began = time.perf_counter()
        connection.request("GET", f"/stores/counts/{quote(key)}")
        answer = connection.getresponse()
        body = answer.read()
        self.took[kind].append((time.perf_counter() - began) * 1000)
        if answer.status not in (200, 404):
            self.unanswered += 1
            return
        count = 0
        if answer.status == 200:
            entry = base64.b64decode(json.loads(body)["value"])
            count = int.from_bytes(entry[:8], "big")
        if count < max(self._seen.get(key, 0), 1):
            self.wrong += 1
        self._seen[key] = count


def _outputs_a_second(stage: Stage, work: Callable[[], None]) -> tuple[float, float]:
    """The rate of outputs while something is done, and how long it took, s."""
    output = names(stage.application)[1]
    before, began = stage.topics.count(output), time.monotonic()
    work()
    after, took = stage.topics.count(output), time.monotonic() - began
    return (after - before) / took, round(took, 1)


def _percentiles(took: list[float]) -> dict[str, float]:
    in_order = sorted(took)
    last = len(in_order) - 1
    return {name: round(in_order[math.ceil(part * last)], 2) for name, part in _PARTS.items()}
