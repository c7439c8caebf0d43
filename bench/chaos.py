"""``python -m bench chaos``: faults of all kinds at once, and whether all is right behind them.

Three brokers, instances of the application ``waiting``, or of one of its parts, behind a proxy.
Workers and instances are killed, frozen, lost, added, drained; brokers are killed, frozen,
restarted; disks are slow, or take no more; and one request in sixty is refused, delayed, cut or
answered by nothing. Every record has a number. In the end all stores hold what the input makes, and
an output has every number: each once for a reader of committed records under exactly_once;
``doubled`` counts those that others have written again. Of ``switch`` each instance has one of the
two guarantees, and is restarted under the other one now and then: outputs may be there again, as
under at_least_once.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import attrs

from bench.options import GUARANTEES, SWITCH
from bench.rounds import tell
from streamlet.testing import KafkaBroker
from tests.integration.chaos.faults import Faults
from tests.integration.chaos.storm import BROKERS, LONG, storm
from tests.integration.chaos.support import Cluster, running

#: How many numbers are shown of those that are wrong.
_SHOWN = 20
#: How long a broker that comes back may take until it serves: all of them share the processors.
_PATIENCE_MS = 300_000


def run(*, seed: int, minutes: float, guarantee: str, shape: str) -> dict[str, Any]:
    """The result as the benchmark prints it."""
    tell(f"seed {seed}, {minutes} minutes, {guarantee}, {shape}")
    once = guarantee == "exactly_once"
    kinds: list[Callable[[Faults], None]] = [*LONG, *BROKERS]
    guarantees = [guarantee]
    settings: dict[str, Any] = {"processing_guarantee": guarantee}
    if guarantee == SWITCH:
        kinds.append(Faults.switch_host)
        guarantees, settings = [*GUARANTEES], {"consumer_isolation_level": "read_committed"}
    with (
        TemporaryDirectory() as folder,
        KafkaBroker(brokers=3, start_timeout_ms=_PATIENCE_MS) as broker,
        running(Cluster(broker.bootstrap_servers, Path(folder), shape, **settings)) as cluster,
    ):
        left = storm(cluster, broker, seed, minutes, kinds, guarantees=guarantees)
        logs = cluster.logs()
    missing = sorted({one.__name__ for one in kinds} - left.faults.keys())
    missing += [kind for kind, count in left.requests.items() if not count]
    right = not (left.wrong or left.lost or left.ended or missing or (once and left.doubled))
    if not right:
        tell(logs)
    return {
        "workload": "chaos",
        "seed": seed,
        "minutes": minutes,
        "guarantee": guarantee,
        "shape": shape,
        **attrs.asdict(left),
        "lost": len(left.lost),
        "doubled": len(left.doubled),
        "which": {"lost": left.lost[:_SHOWN], "doubled": left.doubled[:_SHOWN]},
        "never_happened": missing,
        "right": right,
    }
