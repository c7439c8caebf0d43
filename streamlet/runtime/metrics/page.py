"""The tables of ``docs/metrics.md``: ``python -m streamlet.runtime.metrics.page`` writes them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from streamlet.runtime.metrics.metric import Metric
from streamlet.runtime.metrics.spark_table import SPARK, SPARK_LAG, SPARK_TASKS
from streamlet.runtime.metrics.table import METRICS

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"
_HEAD = "| metric | type | labels | meaning |\n"


def with_tables(page: str) -> str:
    """The page with the tables as the code has them, in place of those that it has."""
    done, rest = "", page
    for metrics in (METRICS.values(), (*SPARK, *SPARK_TASKS.values(), SPARK_LAG)):
        before, found, behind = rest.partition(_HEAD)
        rule, _, behind = behind.partition("\n")
        done += before + found + rule + "\n" + "".join(f"{row}\n" for row in _rows(metrics))
        rest = re.sub(r"\A(\|.*\n)*", "", behind)
    return done + rest


def _rows(metrics: Iterable[Metric]) -> list[str]:
    return [
        f"| `{one.name}` | {one.kind} | {', '.join(f'`{label}`' for label in one.labels)} "
        f"| {one.help} |"
        for one in metrics
    ]


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text("utf-8")), "utf-8")
