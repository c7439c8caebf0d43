"""A query that fails in a benchmark of Spark is reported with its cause."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import pytest

import streamlet.spark
from bench import spark as ways
from bench import spark_state
from streamlet.errors import SparkFailedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.integration]


def fail(batch: Any, number: int) -> None:
    raise ValueError("the real cause")


@pytest.mark.parametrize("session", [ways._session, lambda: spark_state._session(1)])
def test_a_query_that_fails_is_reported_with_its_cause(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    session: Callable[[], AbstractContextManager[SparkSession]],
) -> None:
    """Its error has its text from the JVM before that ends, and needs no JVM when it is printed."""
    ended: list[SparkSession] = []
    monkeypatch.setattr(streamlet.spark, "session", lambda *_, **how: spark)
    monkeypatch.setattr(streamlet.spark, "stop", ended.append)
    monkeypatch.setattr(ways, "connector_jars", list)
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    with pytest.raises(SparkFailedError) as failed, session():
        source.writeStream.foreachBatch(fail).start().processAllAvailable()
    (text,) = failed.value.args
    assert type(text) is str
    assert text.endswith("ValueError: the real cause")
    assert ended == [spark]
