"""The cost of a batch of few changes on Spark, by the size of the state and the executor's cores.

For each number of cores a session of its own fills tables with values of a kilobyte, one table for
each size, and then changes ten keys at a time. The tables take turns, so that all of them meet the
same machine. How long a batch took is read from Spark's own report of it, how much it wrote from
the checkpoint, which has a changelog file for each batch and shuffle partition.
"""

from __future__ import annotations

import random
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from confluent_kafka import Producer

from bench import rounds
from bench.broker import Topics, serving
from bench.descendants import peak_mb
from bench.load import fast_producer, flushed, key
from bench.processes import MeasurementError
from bench.spark_kept import topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamlet.spark.progress import BatchProgress

_TABLES = ("small", "middle", "large")
CHANGES = 10
VALUE_BYTES = 1_024
#: Batches at the beginning of each turn that do not count: Spark starts its workers in them.
_WARM_UP = 3
_COUNTED = 10
_RECORDS_PER_BATCH = 50_000
_SEED = 7


@attrs.frozen
class Batches:
    """The counted batches of one table: how long each took, and the bytes that it wrote.

    Changes that were made together count as one batch, also where a busy machine took them in two.
    """

    took_ms: tuple[int, ...] = ()
    wrote: tuple[int, ...] = ()

    def with_changes(self, came_in: Sequence[BatchProgress], checkpoint: Path) -> Batches:
        """With the changes that came in these batches of Spark."""
        took = sum(one.took_ms for one in came_in)
        wrote = sum(changed_bytes(checkpoint, one.batch) for one in came_in)
        return Batches((*self.took_ms, took), (*self.wrote, wrote))

    def summary(self) -> dict[str, int]:
        """The figures as they are printed."""
        return {
            "batch_ms": round(statistics.median(self.took_ms)),
            "bytes": round(statistics.median(self.wrote)),
            "most_bytes": max(self.wrote),
        }


def run(*, runs: int, cores: Sequence[int], sizes: Sequence[int]) -> dict[str, Any]:
    """Measure; the result as it is printed.

    Raises:
        MeasurementError: a batch was not as it was made.
    """
    result: dict[str, Any] = {"changes": CHANGES, "value_bytes": VALUE_BYTES}
    with serving() as bootstrap:
        for count in cores:
            with _session(count) as spark:
                found = _measured(spark, bootstrap, runs, sizes)
                result[f"cores_{count}"] = {
                    **by_size(found),
                    "python_mb": round(peak_mb("streamlet.spark.cluster.daemon")),
                }
            rounds.tell(f"{count} cores  {result[f'cores_{count}']}")
    return result


def by_size(found: Mapping[int, Batches]) -> dict[str, Any]:
    """The figures of one number of cores: each size, and the largest against the smallest."""
    each = {size: batches.summary() for size, batches in found.items()}
    small, large = each[min(each)], each[max(each)]
    return {
        **{f"keys_{size}": summary for size, summary in each.items()},
        "ratio": round(large["batch_ms"] / small["batch_ms"], 2),
    }


@contextmanager
def _session(cores: int) -> Iterator[SparkSession]:
    import streamlet as sl
    from streamlet.spark.cluster.gateway import short_errors

    settings = {"spark.driver.memory": "3g"}
    spark = sl.spark.session("bench-state", master=f"local[{cores}]", config=settings)
    try:
        with short_errors():  # later there is no JVM that has the text of an error
            yield spark
    finally:
        sl.spark.stop(spark)


def _measured(
    spark: SparkSession, bootstrap: str, runs: int, sizes: Sequence[int]
) -> dict[int, Batches]:
    topics = Topics(bootstrap)
    names = _TABLES[: len(sizes)]
    tables = [_Table(name, size, bootstrap) for name, size in zip(names, sizes, strict=True)]
    batches = dict.fromkeys(sizes, Batches())
    try:
        with tempfile.TemporaryDirectory(prefix="bench-spark-state-") as folder:
            for table in tables:
                topics.create(topic(table.name))
                table.fill()
            for _ in range(runs):
                for table in tables:
                    turn = table.turn(spark, Path(folder) / table.name)
                    before = batches[table.size]
                    took, wrote = before.took_ms + turn.took_ms, before.wrote + turn.wrote
                    batches[table.size] = Batches(took, wrote)
    finally:
        topics.delete(lambda name: name in {topic(table) for table in names})
    return batches


class _Table:
    """A table of so many keys, and the producer that changes it."""

    def __init__(self, name: str, size: int, bootstrap: str) -> None:
        self.name, self.size = name, size
        self._bootstrap = bootstrap
        self._producer: Producer = fast_producer(bootstrap, linger_ms=2)
        self._dice = random.Random(_SEED)

    def fill(self) -> None:
        """Give each key a value."""
        for number in range(self.size):
            self._change(number)
            if number % 10_000 == 0:
                self._producer.poll(0)
        flushed(self._producer)

    def turn(self, spark: SparkSession, checkpoint: Path) -> Batches:
        """Go on with the table's query, change keys batch by batch, and end the query."""
        import streamlet as sl
        from streamlet.spark.progress import batches

        query = sl.spark.start(
            f"bench.spark_kept:{self.name}",
            spark,
            checkpoint=checkpoint,
            trigger="1ms",
            bootstrap_servers=self._bootstrap,
            max_records_per_batch=_RECORDS_PER_BATCH,
        )
        found = Batches()
        try:
            query.processAllAvailable()  # in the first turn all that filled the table
            for number in range(_WARM_UP + _COUNTED):
                before = max((one.batch for one in batches(query)), default=-1)
                for changed in self._dice.sample(range(self.size), CHANGES):
                    self._change(changed)
                flushed(self._producer)
                query.processAllAvailable()
                if number >= _WARM_UP:
                    came_in = [one for one in batches(query, before) if one.records]
                    found = found.with_changes(self._checked(came_in), checkpoint)
        finally:
            query.stop()
        return found

    def _checked(self, came_in: Sequence[BatchProgress]) -> Sequence[BatchProgress]:
        if sum(one.records for one in came_in) != CHANGES:
            raise MeasurementError(f"{self.size} keys: {CHANGES} changes came in {came_in}")
        return came_in

    def _change(self, number: int) -> None:
        value = self._dice.randbytes(VALUE_BYTES)
        self._producer.produce(topic(self.name), value, key(number))


def changed_bytes(checkpoint: Path, batch: int) -> int:
    """Bytes of the files that hold what one batch changed in Spark's stores.

    Raises:
        MeasurementError: there are none.
    """
    found = list((checkpoint / "state").glob(f"*/*/{batch + 1}.changelog"))
    if not found:
        raise MeasurementError(f"the checkpoint has no changes of batch {batch}")
    return sum(file.stat().st_size for file in found)
