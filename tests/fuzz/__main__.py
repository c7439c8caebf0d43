"""Tries many mutated inputs: ``python -m tests.fuzz --inputs 10_000_000``.

Each input is read as the program reads it. An error that is not the parser's documented one, more
memory than 64 MiB above the usual, or more than a second for each MB ends the run: the input is
printed, and ``--replay`` tries it again.
"""

from __future__ import annotations

import argparse
import logging
import random
import resource
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir

import attrs

from tests.fuzz.groups import GROUPS
from tests.fuzz.mutate import mutated
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS

MOST_MIB = 64
MOST_S_PER_MB = 1.0
#: A short input may take as long: Python itself stops the clock now and then.
FREE_S = 0.25
#: The whole inputs kept beside a parser's seeds, to be mutated further.
KEPT = 64
KEPT_BYTES = 2_000
PRINT_S = 10
ALL = (*TARGETS, GROUPS)


class Fault(Exception):
    """An input that went wrong, with how to try it again."""

    def __init__(self, target: Target, raw: bytes, why: str) -> None:
        name = Path(gettempdir(), f"fuzz-{target.name.replace(' ', '-').replace(',', '')}.bin")
        name.write_bytes(raw)
        shown = repr(raw) if len(raw) < 2_000 else f"{raw[:200]!r}… of {len(raw)} bytes"
        super().__init__(
            f"{target.name}: {why}\ninput: {shown}\nagain: python -m tests.fuzz --target "
            f"{target.name!r} --replay {name}\nas an example: add it to `found` of the target"
        )


@attrs.define
class Tally:
    """Figures of a run. ``slowest_s`` is of one input, ``slowest`` s per MB of those of 64 KiB."""

    inputs: int = 0
    refused: int = 0
    bytes: int = 0
    above_mib: float = 0.0
    slowest_s: float = 0.0
    slowest: float = 0.0
    slowest_of: str = ""
    #: Peak of the process, MiB, before the inputs: set once all that it needs is loaded.
    usual_mib: float = 0.0

    def plus(self, other: Tally) -> Tally:
        """Both together."""
        slow = max(self, other, key=lambda one: one.slowest)
        return Tally(
            self.inputs + other.inputs,
            self.refused + other.refused,
            self.bytes + other.bytes,
            max(self.above_mib, other.above_mib),
            max(self.slowest_s, other.slowest_s),
            slow.slowest,
            slow.slowest_of,
        )

    def line(self, seconds: float) -> str:
        """The figures in a line."""
        of = f" ({self.slowest_of})" if self.slowest_of else ""
        return (
            f"{self.inputs:,} inputs, {self.inputs / max(seconds, 1e-9):,.0f} a second, "
            f"{self.refused:,} refused, {self.bytes / 1e6:,.0f} MB; "
            f"memory at most {self.above_mib:.0f} MiB above the usual {self.usual_mib:.0f}; "
            f"slowest {self.slowest_s * 1000:.0f} ms, {self.slowest:.3f} s per MB{of}"
        )


def peak_mib() -> float:
    """The most memory that this process has had, MiB."""
    status = Path("/proc/self/status")
    if status.exists():  # Linux hands ru_maxrss on through fork and exec
        lines = dict(line.partition(":")[::2] for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def tried(target: Target, raw: bytes, tally: Tally) -> bool:
    """Read an input, and take the time; whether it was whole."""
    begin = time.perf_counter()
    try:
        whole = target.check(raw)
    except Exception as error:
        why = f"{type(error).__name__}: {error}\n{''.join(traceback.format_exception(error)[-4:])}"
        raise Fault(target, raw, why) from error
    took = time.perf_counter() - begin
    size = len(raw) / 1e6
    if took > tally.slowest_s or took > FREE_S:
        took = min(took, _again(target, raw))
        tally.slowest_s = max(tally.slowest_s, took)
        if took > FREE_S + MOST_S_PER_MB * size:
            raise Fault(target, raw, f"{len(raw)} bytes took {took:.2f} s")
    if len(raw) > 1 << 16 and took / size > tally.slowest:
        tally.slowest, tally.slowest_of = took / size, target.name
    tally.inputs += 1
    tally.refused += not whole
    tally.bytes += len(raw)
    return whole


def _again(target: Target, raw: bytes) -> float:
    """Processor time of an input, s, the shortest of three: others may have had the processor."""
    found = []
    for _ in range(3):
        begin = time.thread_time()
        target.check(raw)
        found.append(time.thread_time() - begin)
    return min(found)


def run(targets: Sequence[Target], inputs: int, seed: int, *, show: bool = True) -> Tally:
    """Try so many inputs, of each target in turn.

    Raises:
        Fault: one went wrong.
    """
    with _silent():
        return _run(targets, inputs, seed, show)


@contextmanager
def _silent() -> Iterator[None]:
    """Log nothing while the block runs: there would be a line for each input."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def _run(targets: Sequence[Target], inputs: int, seed: int, show: bool) -> Tally:
    dice, tally = random.Random(seed), Tally()
    seeds: dict[str, list[bytes]] = {}
    for target in targets:
        given = [*target.seeds, *target.found]
        seeds[target.name] = [raw for raw in given if len(raw) <= KEPT_BYTES]
        for raw in given:
            tried(target, raw, tally)
    tally.usual_mib = peak_mib()
    begin = said = time.monotonic()
    while tally.inputs < inputs:
        for target in targets:
            _batch(target, seeds[target.name], dice, tally, inputs - tally.inputs)
            if show and time.monotonic() - said > PRINT_S:
                said = time.monotonic()
                print(tally.line(said - begin), flush=True)
    return tally


def _batch(
    target: Target, seeds: list[bytes], dice: random.Random, tally: Tally, most: int
) -> None:
    count = min(target.batch, most)
    first = len(target.seeds)
    for _ in range(count):
        raw = mutated(dice, seeds)
        if tried(target, raw, tally) and len(raw) <= KEPT_BYTES and dice.random() < 0.01:
            seeds.append(raw)
            if len(seeds) > first + KEPT:
                del seeds[first + int(dice.random() * KEPT)]
    if not count:
        return
    above = peak_mib() - tally.usual_mib
    if above > MOST_MIB:
        raise Fault(target, raw, f"it or one of {count} before it took {above:.0f} MiB")
    tally.above_mib = max(tally.above_mib, above)


def _share(arguments: tuple[tuple[str, ...], int, int, bool]) -> Tally:
    names, inputs, seed, show = arguments
    return run([one for one in ALL if one.name in names], inputs, seed, show=show)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=None, help="default: of the time")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--target", action="append", choices=[one.name for one in ALL])
    parser.add_argument("--replay", type=Path, help="a file with one input of --target")
    options = parser.parse_args()
    names = tuple(options.target or [one.name for one in ALL])
    seed = int(time.time()) if options.seed is None else options.seed
    try:
        if options.replay is not None:
            (target,) = [one for one in ALL if one.name in names]
            tried(target, options.replay.read_bytes(), Tally())
            return 0
        print(f"seed {seed}, {len(names)} parsers", flush=True)
        begin, count = time.monotonic(), options.processes
        shares = [
            (names, -(-options.inputs // count), seed + number, number == 0)
            for number in range(count)
        ]
        found = map(_share, shares)
        if count > 1:
            with ProcessPoolExecutor(count) as pool:
                found = iter([*pool.map(_share, shares)])
        tally = next(found)
        usual = tally.usual_mib
        for other in found:
            tally = attrs.evolve(tally.plus(other), usual_mib=usual)
    except Fault as fault:
        print(fault)
        print(f"seed {seed}")
        return 1
    print(f"{tally.line(time.monotonic() - begin)}; seed {seed}: nothing found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
