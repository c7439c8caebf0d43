"""Names of the Spark benchmark's topics."""

from __future__ import annotations

#: The variable that names the loaded topic to all processes of a benchmark.
SOURCE_VARIABLE = "BENCH_SPARK_SOURCE"
LIVE = "bench-spark-live"
OUTPUT = "bench-spark-out"
