"""Mutated inputs of every parser of bytes from outside: read, or refused as documented.

Seconds of what ``python -m tests.fuzz --inputs 10_000_000`` does in half an hour.
"""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.fuzz import __main__ as command
from tests.fuzz.groups import play
from tests.fuzz.mutate import mutated
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS

INPUTS = 100
ROOT = Path(__file__).parents[2]


def inputs(target: Target) -> st.SearchStrategy[bytes]:
    """Inputs like those of a parser."""
    seeds = [*target.seeds, *(one for one in target.found if len(one) < command.KEPT_BYTES)]
    return st.randoms(use_true_random=True).map(lambda dice: mutated(dice, seeds))


@pytest.mark.parametrize("target", TARGETS, ids=lambda one: one.name.replace(" ", "_"))
def test_a_parser_reads_an_input_or_refuses_it_as_documented(target: Target) -> None:
    @settings(max_examples=INPUTS, deadline=None, database=None)
    @given(inputs(target))
    def reads(raw: bytes) -> None:
        target.check(raw)

    for raw in target.found:
        reads = example(raw)(reads)
    reads()


@pytest.mark.parametrize("target", TARGETS, ids=lambda one: one.name.replace(" ", "_"))
def test_the_seeds_of_a_parser_are_inputs_that_it_reads(target: Target) -> None:
    """Most mutations of bytes that are refused at their beginning would try nothing."""
    assert any(target.check(raw) for raw in target.seeds)


@pytest.mark.parametrize("seed", range(20))
def test_no_group_with_hostile_members_ends_its_leader_or_a_command(seed: int) -> None:
    play(random.Random(seed))


def test_the_command_counts_what_it_tried() -> None:
    (target,) = (one for one in TARGETS if one.name == "origin")
    tally = command.run([target], 200, seed=1, show=False)
    assert (tally.inputs, tally.refused) == (200, 0)
    assert "200 inputs" in tally.line(1.0)


def test_the_command_shows_an_input_that_went_wrong() -> None:
    def read(raw: bytes) -> None:
        if len(raw) != 3:
            raise LookupError("none of ours")

    with pytest.raises(command.Fault, match="broken: LookupError: none of ours") as fault:
        command.run([Target("broken", read, (ValueError,), (b"abc",))], 200, seed=1, show=False)
    assert "--replay" in str(fault.value)


#: In a process of its own, whose peak of memory is that of no other test.
GREEDY = """
from tests.fuzz import __main__ as command
from tests.fuzz.target import Target

def read(raw):
    bytearray(command.MOST_MIB + 64 << 20) if raw != b"abc" else None

try:
    command.run([Target("greedy", read, (), (b"abc",))], 3, seed=1, show=False)
except command.Fault as fault:
    print(fault)
"""


def test_the_command_refuses_a_parser_that_takes_too_much_memory() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", GREEDY], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "MiB" in ran.stdout


def test_the_table_of_parsers_names_every_target() -> None:
    page = (ROOT / "docs" / "internals" / "parsers.md").read_text()
    rows = [line.split("|")[-2] for line in page.splitlines() if line.startswith("| ")]
    named = {name.strip() for row in rows for name in row.split(";")} - {"target", ""}
    assert named == {target.name for target in command.ALL}
