"""The defaults of a query on Spark."""

from __future__ import annotations

from typing import Final

#: Records of streams in one micro-batch, about: one that is far behind does not read all at once.
MAX_RECORDS_PER_BATCH: Final = 1_000_000
#: How often in a row a query that failed begins again; as a worker does natively.
RESTARTS: Final = 5
