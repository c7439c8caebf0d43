"""What Spark cannot do is said before anything runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import examples.wordcount
import streamlet as sl
from streamlet.config import Settings
from streamlet.errors import AppNotFoundError, ConfigError, StateError
from streamlet.spark import checkpoint, start, to_dataframe
from streamlet.spark.cluster.session import PROVIDER_SETTING, ROCKSDB_PROVIDER, session
from streamlet.spark.plan.plan import plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

WORDS = examples.wordcount.app


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before)


def test_another_state_store_is_refused_by_name(spark: SparkSession) -> None:
    with (
        setting(spark, PROVIDER_SETTING, "some.Other"),
        pytest.raises(ConfigError, match=r"tasks with state need .*RocksDB.*not some\.Other"),
    ):
        to_dataframe(WORDS, spark, partitions={"lines": 1})


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"processing.guarantee": "exactly_once"},
            r"transactions \(processing\.guarantee=exactly_once\) do not run on",
        ),
        ({"auto.offset.reset": "none"}, "begins somewhere"),
    ],
)
def test_settings_that_spark_cannot_carry_out_are_refused(
    spark: SparkSession, config: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        to_dataframe(WORDS, spark, settings=Settings.load(config), partitions={"lines": 1})


def test_an_app_that_workers_cannot_import_is_refused(spark: SparkSession) -> None:
    with pytest.raises(AppNotFoundError, match="Spark's workers import it by its name"):
        to_dataframe(sl.App("loose"), spark, partitions={})


@pytest.mark.parametrize("trigger", ["", "soon", "5", "1.5s"])
def test_a_trigger_that_is_none_is_refused(
    spark: SparkSession, tmp_path: Path, trigger: str
) -> None:
    with pytest.raises(ConfigError, match="expected a time as 1s or 500ms"):
        start(WORDS, spark, checkpoint=tmp_path, trigger=trigger)


def test_a_checkpoint_of_something_else_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    topology = WORDS.topology()
    for partitions in (2, 2):
        laid_out = plan("examples.wordcount:app", topology, {"lines": partitions})
        checkpoint.check(spark, str(tmp_path), checkpoint.described(topology, laid_out))
    laid_out = plan("examples.wordcount:app", topology, {"lines": 3})
    with pytest.raises(StateError, match="lines had 2 partitions and has 3"):
        checkpoint.check(spark, str(tmp_path), checkpoint.described(topology, laid_out))


def test_settings_that_come_too_late_for_a_session_are_refused_by_name(spark: SparkSession) -> None:
    with pytest.raises(
        ConfigError, match=r"^spark\.jars\.packages, spark\.master: too late for the"
    ):
        session(master="yarn", packages=["a:b:1"])
    same = session(master=spark.sparkContext.master, config={PROVIDER_SETTING: ROCKSDB_PROVIDER})
    assert same.sparkContext is spark.sparkContext
