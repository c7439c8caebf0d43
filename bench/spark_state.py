"""The cost of a batch on Spark, by its changes, the size of the state and the executor's cores.

For each number of cores a session of its own fills tables with values of a kilobyte, one table for
each size, and then changes keys here and there, first few at a time and then many. The tables take
turns, so that all of them meet the same machine. How long a batch took, and what it read of the
state, is in Spark's own report of it; how much it wrote is in the checkpoint, which has a changelog
file for each batch and shuffle partition.
"""

from __future__ import annotations

import json
import random
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

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
    from pyspark.sql.streaming.query import StreamingQuery

    from streamlet.spark.progress import BatchProgress

#: Entries and bytes.
Read: TypeAlias = tuple[int, int]

_TABLES = ("small", "middle", "large")
VALUE_BYTES = 1_024
#: Batches at the beginning of each turn that do not count: Spark starts its workers in them.
_WARM_UP = 3
COUNTED = 10
_RECORDS_PER_BATCH = 50_000
_SEED = 7


@attrs.frozen
class Batches:
    """The counted batches of one table: how long each took, and what it read and wrote.

    Changes that were made together count as one batch, also where a busy machine took them in two.
    """

    took_ms: tuple[int, ...] = ()
    #: Bytes.
    wrote: tuple[int, ...] = ()
    #: Entries and bytes.
    read: tuple[tuple[int, int], ...] = ()

    def with_changes(
        self, came_in: Sequence[BatchProgress], checkpoint: Path, read: Mapping[int, Read]
    ) -> Batches:
        """With the changes that came in these batches of Spark; ``read`` is by batch."""
        took = sum(one.took_ms for one in came_in)
        wrote = sum(changed_bytes(checkpoint, one.batch) for one in came_in)
        entries, size = (
            sum(each) for each in zip(*(read[one.batch] for one in came_in), strict=True)
        )
        return Batches((*self.took_ms, took), (*self.wrote, wrote), (*self.read, (entries, size)))

    def plus(self, later: Batches) -> Batches:
        """Both."""
        return Batches(
            self.took_ms + later.took_ms, self.wrote + later.wrote, self.read + later.read
        )

    def summary(self) -> dict[str, int]:
        """The figures as they are printed."""
        return {
            "batch_ms": round(statistics.median(self.took_ms)),
            "bytes": round(statistics.median(self.wrote)),
            "most_bytes": max(self.wrote),
            "read_entries": round(statistics.median(entries for entries, _ in self.read)),
            "read_bytes": round(statistics.median(size for _, size in self.read)),
            "most_read_bytes": max(size for _, size in self.read),
        }


def run(
    *,
    runs: int,
    cores: Sequence[int],
    sizes: Sequence[int],
    changes: Sequence[int],
    counted: int = COUNTED,
) -> dict[str, Any]:
    """Measure; the result as it is printed.

    Tables with fewer keys than are to be changed are left out of that. Of each table and number of
    changes ``counted`` batches count.

    Raises:
        MeasurementError: a batch was not as it was made.
    """
    result: dict[str, Any] = {"value_bytes": VALUE_BYTES}
    with serving() as bootstrap:
        for count in cores:
            with _session(count) as spark:
                found = _measured(spark, bootstrap, runs, sizes, changes, counted)
                result[f"cores_{count}"] = {
                    **{
                        f"changes_{number}": by_size(some) for number, some in found.items() if some
                    },
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
    spark: SparkSession,
    bootstrap: str,
    runs: int,
    sizes: Sequence[int],
    changes: Sequence[int],
    counted: int,
) -> dict[int, dict[int, Batches]]:
    """The batches by the number of changes in each, and the size of the table."""
    topics = Topics(bootstrap)
    names = _TABLES[: len(sizes)]
    tables = [_Table(name, size, bootstrap) for name, size in zip(names, sizes, strict=True)]
    found: dict[int, dict[int, Batches]] = {number: {} for number in changes}
    try:
        with tempfile.TemporaryDirectory(prefix="bench-spark-state-") as folder:
            for table in tables:
                topics.create(topic(table.name))
                table.fill()
            for _ in range(runs):
                for table in tables:
                    turns = table.turn(spark, Path(folder) / table.name, changes, counted)
                    for number, turn in turns.items():
                        before = found[number].get(table.size, Batches())
                        found[number][table.size] = before.plus(turn)
    finally:
        topics.delete(lambda name: name in {topic(table) for table in names})
    return found


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

    def turn(
        self, spark: SparkSession, checkpoint: Path, changes: Sequence[int], counted: int
    ) -> dict[int, Batches]:
        """Go on with the table's query, change keys batch by batch, and end the query."""
        import streamlet as sl

        query = sl.spark.start(
            f"bench.spark_kept:{self.name}",
            spark,
            checkpoint=checkpoint,
            trigger="1ms",
            bootstrap_servers=self._bootstrap,
            max_records_per_batch=_RECORDS_PER_BATCH,
        )
        found: dict[int, Batches] = {}
        try:
            query.processAllAvailable()  # in the first turn all that filled the table
            for count in (one for one in changes if one <= self.size):
                warm_up = counted if found else _WARM_UP + counted
                for number in range(warm_up, 0, -1):
                    came_in = self._changed(query, count)
                    if number <= counted:
                        before = found.get(count, Batches())
                        found[count] = before.with_changes(came_in, checkpoint, state_read(query))
        finally:
            query.stop()
        return found

    def _changed(self, query: StreamingQuery, count: int) -> Sequence[BatchProgress]:
        """The batches in which so many changes came that were made together."""
        from streamlet.spark.progress import batches

        before = max((one.batch for one in batches(query)), default=-1)
        for changed in self._dice.sample(range(self.size), count):
            self._change(changed)
        flushed(self._producer)
        query.processAllAvailable()
        came_in = [one for one in batches(query, before) if one.records]
        if sum(one.records for one in came_in) != count:
            raise MeasurementError(f"{self.size} keys: {count} changes came in {came_in}")
        return came_in

    def _change(self, number: int) -> None:
        value = self._dice.randbytes(VALUE_BYTES)
        self._producer.produce(topic(self.name), value, key(number))


def state_read(query: StreamingQuery) -> dict[int, Read]:
    """Entries and bytes of the state that each batch read, as far as Spark remembers them."""
    found: dict[int, Read] = {}
    for report in (json.loads(one.json) for one in query.recentProgress):
        metrics = [operator["customMetrics"] for operator in report["stateOperators"]]
        found.setdefault(
            report["batchId"],
            (
                sum(one["rocksdbGetCount"] for one in metrics),
                sum(one["rocksdbTotalBytesRead"] for one in metrics),
            ),
        )
    return found


def changed_bytes(checkpoint: Path, batch: int) -> int:
    """Bytes of the files that hold what one batch changed in Spark's stores.

    Raises:
        MeasurementError: there are none.
    """
    found = list((checkpoint / "state").glob(f"*/*/{batch + 1}.changelog"))
    if not found:
        raise MeasurementError(f"the checkpoint has no changes of batch {batch}")
    return sum(file.stat().st_size for file in found)
