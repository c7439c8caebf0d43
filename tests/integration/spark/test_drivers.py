"""Drivers that are killed at random moments; the next one ends with the right counts."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.chaos.support import wait_for
from tests.integration.spark import words
from tests.integration.spark.programs import LINES, counting, running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamlet.spark.plan.prepare import OutputKind

pytestmark = [
    pytest.mark.spark,
    pytest.mark.integration,
    pytest.mark.chaos,
]


@pytest.mark.parametrize("output", [pytest.param("updates", marks=pytest.mark.long), "latest"])
def test_a_killed_driver_goes_on_where_it_was(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path, output: OutputKind
) -> None:
    """Driver, JVM and workers die at once, as with the machine; the checkpoint is what is left."""
    dice, checkpoint, log = random.Random(3), tmp_path / "checkpoint", tmp_path / "log"
    words.create_topics(bootstrap_servers)
    words.produce(bootstrap_servers, LINES)
    try:
        with running(counting(bootstrap_servers, checkpoint, output), log) as driver:
            wait_for(
                lambda: words.batches(checkpoint) > 0 or driver.poll() is not None, "a batch", 200
            )
            assert driver.poll() is None, log.read_text()
            time.sleep(dice.uniform(0, 0.8))  # any moment of a batch
        assert words.batches(checkpoint) < len(LINES) / words.FEW, "nothing was left to do"
        words.finish(spark, bootstrap_servers, checkpoint, output=output)
        words.check(bootstrap_servers, checkpoint, LINES, output)
    finally:
        words.delete_topics(bootstrap_servers)
