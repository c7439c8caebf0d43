"""``streamlet backfill`` refuses options that cannot be before it starts Spark."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from streamlet.reset.backfill import Backfill
from streamlet.reset.start import StartPosition
from streamlet.tools.main import build


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("topic", "--key", "page", "--live-from", "latest"),
            "--key, --live-from: only with files, --from parquet or --from csv",
        ),
        (
            ("csv", "--path", "lines=/nowhere", "--partitioner", "md5"),
            "--partitioner: 'md5' is no partitioner of a topic; there are 'murmur2_random'",
        ),
        (("csv",), "--path: needed with --from csv, as topic=folder"),
        (
            ("csv", "--path", "lines=/nowhere", "--live-from", "soon"),
            "--live-from soon: expected earliest, latest, or a time such as",
        ),
    ],
)
def test_a_wrong_option_is_named(words: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(build(), ["backfill", "examples.wordcount:app", "--from", *words])
    assert result.exit_code == 2
    assert said in result.stderr
    assert "starting Spark" not in result.stderr


def test_instances_do_not_look_where_keys_lie_if_it_was_said() -> None:
    cluster: Any = None
    start = StartPosition("latest")
    assert Backfill(cluster, {"b": start, "a": start}).filled == ["a", "b"]
    assert Backfill(cluster, {"b": start, "a": start}, placed=("a",)).filled == ["b"]
