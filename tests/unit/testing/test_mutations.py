"""The list of broken rules fits the code as it is, and is in docs/rules with its outcome."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest

from tests.simulation.held.mutations import MUTATIONS as HELD_MUTATIONS
from tests.simulation.mutation_list import MUTATIONS, Mutation
from tests.simulation.mutations import mutated

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("mutation", [*MUTATIONS, *HELD_MUTATIONS], ids=lambda one: one.name)
def test_each_mutation_still_applies_and_is_still_python(mutation: Mutation) -> None:
    compile(mutated(mutation, ROOT / "streamlet"), mutation.file, "exec")


def test_a_mutation_whose_source_is_not_there_once_is_refused() -> None:
    gone = attrs.evolve(MUTATIONS[0], source="no such line")
    with pytest.raises(ValueError, match=f"{gone.name}: its source text is 0 times"):
        mutated(gone, ROOT / "streamlet")


def test_the_page_of_the_model_lists_each_mutation_once() -> None:
    page = (ROOT / "docs" / "rules" / "model.md").read_text("utf-8")
    section = page.partition("## Mutations\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `([\w-]+)` \|", section, re.M) == [one.name for one in MUTATIONS]


def test_the_page_lists_each_mutation_of_held_edges_once() -> None:
    page = (ROOT / "docs" / "rules" / "edges.md").read_text("utf-8")
    section = page.partition("## Records that wait for their writer's commit\n")[2]
    section = section.partition("\n## ")[0]
    listed = [
        name
        for row in re.findall(r"^\| [^|]+ \| [^|]+ \| (`[^|]+`) \|", section, re.M)
        for name in re.findall(r"`([\w-]+)`", row)
    ]
    assert listed == [one.name for one in HELD_MUTATIONS]
