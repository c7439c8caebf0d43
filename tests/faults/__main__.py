"""Lets each fault of each request happen to a real application: ``python -m tests.faults``.

After each, stores and outputs must be those of the input: each output once for readers of committed
records under exactly_once, at least once otherwise. The first that are not end the run with 1.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import attrs

from streamlet.testing import KafkaBroker
from tests.faults import page
from tests.faults.cases import CASES, DOCUMENTED, GUARANTEES, Case
from tests.faults.subject import SENT_ONCE, Outcome, Subject

#: The fault happens to one of so many requests from its injection on.
_WITHIN = 3


def run(
    cases: Sequence[Case], guarantee: str, servers: str, folder: Path, dice: random.Random
) -> dict[Case, Outcome]:
    """Let each of them happen in random order, with a line for each; what each led to.

    Raises:
        WrongError: outputs are wrong behind one of them.
        AssertionError: stores or outputs are in the end.
    """
    found: dict[Case, Outcome] = {}
    with Subject(servers, folder, guarantee) as subject:
        for case in dice.sample(cases, len(cases)):
            nth = 1 if case.api in SENT_ONCE else dice.randint(1, _WITHIN)
            print(f"{guarantee}: {case}", end=" … ", flush=True)
            found[case] = outcome = subject.suffer(case, nth)
            print(f"{outcome.leads_to} {outcome.took_s:.1f} s {outcome.says}", flush=True)
        subject.finish()
    return found


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--api", action="append", choices=[*DOCUMENTED], help="all without any")
    parser.add_argument("--effect", action="append", help="an error, disconnect, delay, black hole")
    parser.add_argument("--guarantee", action="append", choices=GUARANTEES)
    parser.add_argument("--missing", action="store_true", help="only what the pages have not seen")
    parser.add_argument("--seed", type=int, default=None, help="default: of the time")
    parser.add_argument("--runs", type=int, default=1, help="each case so often")
    parser.add_argument("--bootstrap-servers", help="default: a broker of its own")
    parser.add_argument("--json", action="store_true", help="print what each led to at the end")
    parser.add_argument(
        "--record", action="store_true", help="add what is new to the pages of faults"
    )
    options = parser.parse_args()
    seed = int(time.time()) if options.seed is None else options.seed
    chosen = [
        case
        for case in CASES
        if case.api in (options.api or DOCUMENTED)
        and (options.effect is None or case.effect in options.effect)
    ]
    known = page.recorded() if options.missing else {}
    print(f"seed {seed}", flush=True)
    found: dict[tuple[str, Case], list[Outcome]] = defaultdict(list)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        servers = options.bootstrap_servers
        if servers is None:
            servers = stack.enter_context(KafkaBroker()).bootstrap_servers
        for guarantee in options.guarantee or GUARANTEES:
            sent = [case for case in chosen if case.sent_under(guarantee)]
            sent = [case for case in sent if (guarantee, case) not in known]
            for number in range(options.runs if sent else 0):
                outcomes = run(sent, guarantee, servers, folder, random.Random(seed + number))
                for case, outcome in outcomes.items():
                    found[guarantee, case].append(outcome)
    seen = {key: [outcome.told for outcome in outcomes] for key, outcomes in found.items()}
    if options.record:
        page.record(seen)
    if options.json:
        print(json.dumps({"seed": seed, "cases": [*_as_json(found)]}))
    print(f"{sum(map(len, seen.values()))} faults, seed {seed}: stores and outputs exact")
    return 0


def _as_json(found: Mapping[tuple[str, Case], Sequence[Outcome]]) -> Iterator[dict[str, Any]]:
    for (guarantee, case), outcomes in found.items():
        for outcome in outcomes:
            yield {"guarantee": guarantee, **attrs.asdict(case), **attrs.asdict(outcome)}


if __name__ == "__main__":
    sys.exit(main())
