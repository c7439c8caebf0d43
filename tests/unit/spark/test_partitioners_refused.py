"""A partitioner of a topic inside a Spark query is refused: rows are shuffled by their keys."""

from __future__ import annotations

import pytest

import streamlet as sl
from streamlet.errors import TopologyError
from streamlet.spark.plan.refusals import check_topology


def numbers(app: sl.App) -> sl.KStream[str, int]:
    return app.stream("in", key=str, value=int)


def test_partitioners_of_other_topics_are_not_refused() -> None:
    app = sl.App("a")
    numbers(app).to("out", partitioner=lambda key, value, count: value % count)
    check_topology(app.topology())


def test_partitioners_of_repartition_topics_are_refused_by_name() -> None:
    app = sl.App("a")
    spread = numbers(app).repartition(name="spread", partitioner=lambda key, value, count: 0)
    spread.to("again")
    with pytest.raises(TopologyError, match=r"\(a-spread-repartition\) do not run on Spark"):
        check_topology(app.topology())
