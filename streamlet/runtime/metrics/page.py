"""``python -m streamlet.runtime.metrics.page``: the tables of ``docs/metrics.md``, printed.

It reads the page from standard input, and writes it with the tables of the code.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable

from streamlet.runtime.metrics.kafka_names import KAFKA_METRICS
from streamlet.runtime.metrics.metric import Metric
from streamlet.runtime.metrics.spark_table import SPARK, SPARK_LAG, SPARK_TASKS
from streamlet.runtime.metrics.table import METRICS

_HEADS = (
    "| metric | type | labels | meaning |",
    "| Kafka | here |",
    "| metric | type | labels | meaning |",
)


def page_with_tables(page: str) -> str:
    """The page with its three tables as the code has them."""
    spark = (*SPARK, *SPARK_TASKS.values(), SPARK_LAG)
    kafka = [f"| `{theirs}` | `{ours}` |" for theirs, ours in KAFKA_METRICS]
    done, rest = "", page
    for head, rows in zip(_HEADS, (_rows(METRICS.values()), kafka, _rows(spark)), strict=True):
        before, found, behind = rest.partition(head + "\n")
        rule, _, behind = behind.partition("\n")
        done += before + found + rule + "\n" + "".join(f"{row}\n" for row in rows)
        rest = re.sub(r"\A(\|.*\n)*", "", behind)
    return done + rest


def _rows(metrics: Iterable[Metric]) -> list[str]:
    return [
        f"| `{one.name}` | {one.kind} | {', '.join(f'`{label}`' for label in one.labels)} "
        f"| {one.help} |"
        for one in metrics
    ]


if __name__ == "__main__":
    sys.stdout.write(page_with_tables(sys.stdin.read()))
