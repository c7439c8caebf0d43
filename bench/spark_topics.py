"""Names of the Spark benchmark's topics, other ones in each run of it.

The variables are set before Spark starts, so that its workers know them too.
"""

from __future__ import annotations

import os
import uuid

#: Other in each run of the benchmark.
RUN = os.environ.setdefault("BENCH_SPARK_RUN", uuid.uuid4().hex[:8])

#: The variable that names the loaded topic to all processes of a benchmark.
SOURCE_VARIABLE = "BENCH_SPARK_SOURCE"
LIVE = f"bench-spark-live-{RUN}"
OUTPUT = f"bench-spark-out-{RUN}"
