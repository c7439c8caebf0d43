"""``streamlet backfill`` refuses options that cannot be before it starts Spark."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from streamlet.tools.main import build


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("topic", "--key", "page", "--live-from", "latest"),
            "--key, --live-from: only with files, --from parquet or --from csv",
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
