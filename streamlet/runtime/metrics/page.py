"""The tables of ``docs/metrics*.md``: ``python -m streamlet.runtime.metrics.page`` writes them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from streamlet.runtime.metrics.kafka_names import KAFKA_METRICS
from streamlet.runtime.metrics.metric import Metric
from streamlet.runtime.metrics.spark_table import SPARK, SPARK_LAG, SPARK_TASKS
from streamlet.runtime.metrics.table import METRICS

_DOCS = Path(__file__).parents[3] / "docs"
_METRICS = "| metric | type | labels | meaning |\n"
_KAFKA = "| Kafka | here |\n"


def pages() -> dict[Path, str]:
    """The file of each page, and its text with the tables as the code has them."""
    spark = (*SPARK, *SPARK_TASKS.values(), SPARK_LAG)
    kafka = [f"| `{theirs}` | `{ours}` |" for theirs, ours in KAFKA_METRICS]
    tables = {
        _DOCS / "metrics.md": [(_METRICS, _rows(METRICS.values())), (_METRICS, _rows(spark))],
        _DOCS / "metrics-kafka-streams.md": [(_KAFKA, kafka)],
    }
    return {file: _with_tables(file.read_text("utf-8"), of) for file, of in tables.items()}


def _with_tables(page: str, tables: Iterable[tuple[str, Iterable[str]]]) -> str:
    """A page with these tables, each a header and its rows, in place of those with the headers."""
    done, rest = "", page
    for head, rows in tables:
        before, found, behind = rest.partition(head)
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
    for file, text in pages().items():
        file.write_text(text, "utf-8")
