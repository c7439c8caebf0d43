"""``python -m tests.simulation.model``: counterexamples with traces, and the long searches."""

from __future__ import annotations

import argparse
import random
import sys
import time

from tests.simulation.model.cases import CASES, PROTOCOLS, SLOW
from tests.simulation.model.folder_cases import FOLDER_CASES, HOLDS, LONGER
from tests.simulation.model.properties import broken
from tests.simulation.model.rules import Rules, budget
from tests.simulation.model.search import explore, sweep
from tests.simulation.model.steps import canonical, initial, moves
from tests.simulation.model.type_migration import MigrationRules, explore_migration


def main() -> int:
    """Run what the command line asks for; 1 if the protocol itself was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.model", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    cases = commands.add_parser("cases", help="each rule out: the shortest trace to the harm")
    cases.add_argument("names", nargs="*", choices=[*CASES, *SLOW, "V13", []])
    numbers = commands.add_parser("numbers", help="the same for commit numbers and folders")
    numbers.add_argument("names", nargs="*", choices=[*FOLDER_CASES, *HOLDS, *LONGER, []])
    sweeps = commands.add_parser("sweep", help="every multiset of so many faults, exhaustively")
    sweeps.add_argument("protocol", choices=list(PROTOCOLS))
    sweeps.add_argument("faults", type=int)
    sweeps.add_argument("--kinds", help="faults to choose from, separated by commas")
    sweeps.add_argument("--seconds", type=float, default=3_600.0, help="for one multiset")
    walks = commands.add_parser("walk", help="random runs with many faults; weak evidence")
    walks.add_argument("protocol", choices=list(PROTOCOLS))
    walks.add_argument("--seconds", type=float, default=60.0)
    walks.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    match args.command:
        case "cases":
            return _cases(args.names)
        case "numbers":
            return _numbers(args.names)
        case "sweep":
            return _sweep(args.protocol, args.faults, args.kinds, args.seconds)
        case _:
            return _walk(args.protocol, args.seconds, args.seed)


def _cases(names: list[str]) -> int:
    known = {**CASES, **SLOW}
    for name in names or [*CASES, "V13"]:
        if name == "V13":
            _flip()
            continue
        case = known[name]
        print(f"## {name}: without {case.rule}\n{explore(case.without_rule()).text()}")
        sys.stdout.flush()
    return 0


def _numbers(names: list[str]) -> int:
    bad = 0
    for name in names or [*FOLDER_CASES, *HOLDS, *LONGER]:
        if name in FOLDER_CASES:
            case = FOLDER_CASES[name]
            print(f"## {name}: without {case.rule}\n{explore(case.without_rule()).text()}")
        else:
            result = explore({**HOLDS, **LONGER}[name], live=True)
            bad += bool(result.broken or result.stuck)
            print(f"## {name}: {result.text()}")
        sys.stdout.flush()
    return 1 if bad else 0


def _flip() -> None:
    for rules in (
        MigrationRules(compares="nothing"),
        MigrationRules(compares="offset", new_epoch=False),
    ):
        bad, trace, states = explore_migration(rules)
        print(f"## V13: {rules}\n{states} states, BROKEN: {bad}")
        print("\n".join(f"    {words}" for words in trace))


def _sweep(protocol: str, total: int, kinds: str | None, seconds: float) -> int:
    rules, faults, always = PROTOCOLS[protocol]
    chosen_from = tuple(kinds.split(",")) if kinds else faults
    states = complete = searches = bad = 0
    began = time.monotonic()
    for chosen, result in sweep(rules, chosen_from, total, always=always, seconds=seconds):
        print(f"{'+'.join(chosen)}: {result.text()}", flush=True)
        states += result.states
        searches += 1
        complete += result.complete
        bad += bool(result.broken or result.stuck)
    took = time.monotonic() - began
    print(f"{protocol}: {searches} searches, {complete} complete, {states} states, {took:.0f} s")
    return 1 if bad else 0


def _walk(protocol: str, seconds: float, seed: int) -> int:
    rules, faults, _ = PROTOCOLS[protocol]
    left = budget(10, **dict.fromkeys(faults, 3))
    dice, until = random.Random(seed), time.monotonic() + seconds
    runs, seen = 0, set()
    while time.monotonic() < until:
        runs += 1
        trace, bad, states = _run(rules, left, dice)
        seen.update(states)
        if bad:
            print(f"BROKEN: {bad}", *trace, sep="\n    ")
            return 1
    print(f"{protocol}, seed {seed}: {runs} runs, {len(seen)} different states, nothing broken")
    return 0


def _run(
    rules: Rules, left: tuple[int, ...], dice: random.Random
) -> tuple[list[str], str, list[int]]:
    world, trace, seen = initial(left, rules), [], []
    for _ in range(300):
        steps = list(moves(world, rules))
        faults = [step for step in steps if step.fault]
        others = [step for step in steps if not step.fault]
        if not steps:
            break
        now = faults and (not others or dice.random() < 0.08)
        step = dice.choice(faults if now else others)
        world = canonical(step.world, rules)
        trace.append(step.words)
        seen.append(hash(world))
        if bad := broken(world, rules):
            return trace, bad, seen
    return trace, "", seen


if __name__ == "__main__":
    sys.exit(main())
