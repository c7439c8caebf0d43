"""Prefixes of columns, by the extension and without it."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import ModuleType

import pytest

from streamlet.kafka.native.library import native
from streamlet.processing.edges import held_columns
from streamlet.processing.edges.held_columns import (
    cut,
    cut_in_python,
    pack,
    pack_in_python,
    rise,
    runs_in_python,
    runs_of,
)
from streamlet.processing.edges.held_records import (
    HEAD_BYTES,
    MARK,
    PREFIX_BYTES,
    SEQUENCE_BYTES,
    pack_head,
)

HEADS = [pack_head(1, 7 << 32 | 1, number) for number in (3, 4)]
_FORM = MARK, HEAD_BYTES, PREFIX_BYTES


@pytest.mark.parametrize("first", [1, 100, 127, (1 << 15) - 3, (1 << 40) - 130])
@pytest.mark.parametrize("null", [lambda at: False, lambda at: at % 3 == 0, lambda at: True])
def test_sequences_rise_and_values_come_back_wherever_a_run_begins(
    first: int, null: Callable[[int], bool]
) -> None:
    values = [None if null(at) else b"%d" % at * (at % 4) for at in range(300)]
    packed = pack(HEADS[0], values, first)
    assert packed == pack_in_python(HEADS[0], values, first)
    bodies, joined = cut(packed, 0, 300)
    assert (bodies, joined) == cut_in_python(packed, 0, 300, PREFIX_BYTES)
    assert bodies == values
    parts = [joined[at : at + SEQUENCE_BYTES] for at in range(0, len(joined), SEQUENCE_BYTES)]
    assert [int.from_bytes(one, "big") >> 1 for one in parts] == [*range(first, first + 300)]
    assert cut(packed, 40, 90) == (values[40:90], joined[320:720])
    assert rise(packed)
    assert not rise([*packed[:200], packed[100]])
    assert not rise([packed[0], packed[0]])


def test_runs_end_where_another_head_begins_or_none() -> None:
    (one, two), (other,) = pack(HEADS[0], [b"a", b"b"], 1), pack(HEADS[1], [b"c"], 3)
    column = [None, b"plain", one, two, other, two, two, two[:-2], b"", MARK]
    assert [tuple(run) for run in runs_of(column)] == [
        (0, 2, False, True, False),
        (2, 4, True, True, True),
        (4, 5, True, True, True),
        (5, 8, True, False, False),
        (8, 10, False, True, False),
    ]
    assert runs_of([]) == []


def test_the_extension_and_python_find_the_same_runs(extension: ModuleType) -> None:
    dice = random.Random(1)
    packed = [one for head in HEADS for one in pack(head, [b"x", b"", None, b"yy"], 250)]
    pieces = [*packed, packed[0][:35], packed[0][:32], packed[0][:31], MARK, b"plain", b"", None]
    for _ in range(400):
        column = [dice.choice(pieces) for _ in range(dice.randrange(12))]
        found = [tuple(map(int, row)) for row in extension.prefix_runs(column, *_FORM)]
        assert found == [tuple(map(int, row)) for row in runs_in_python(column, *_FORM)]


@pytest.mark.parametrize(
    "call",
    [
        lambda of: of.pack_prefixes(HEADS[0], ["text"], 1),
        lambda of: of.prefix_runs([b"", 1], *_FORM),
        lambda of: of.cut_prefixes([None], 0, 1, PREFIX_BYTES),
        lambda of: of.cut_prefixes([b"short"], 0, 1, PREFIX_BYTES),
        lambda of: of.cut_prefixes([b"x" * 40], 0, 2, PREFIX_BYTES),
        lambda of: of.cut_prefixes([b"x" * 40], -1, 1, PREFIX_BYTES),
        lambda of: of.cut_prefixes([b"x" * 40], 0, 1, 7),
    ],
)
def test_the_extension_refuses_what_is_no_such_column(
    call: Callable[[ModuleType], object], extension: ModuleType
) -> None:
    with pytest.raises((TypeError, ValueError)):
        call(extension)


def test_without_the_extension_python_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pack_prefixes", "prefix_runs", "cut_prefixes"):
        monkeypatch.setattr(held_columns, name, None)
    packed = pack(HEADS[0], [b"a", None], 1)
    assert cut(packed, 0, 2)[0] == [b"a", None]
    assert [tuple(run) for run in runs_of(packed)] == [(0, 2, True, True, True)]


@pytest.fixture
def extension() -> ModuleType:
    """The extension, where it was built."""
    module = native().module
    if module is None:
        pytest.skip(native().reason)
    return module
