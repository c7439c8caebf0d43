"""The applications of ``bench/apps.py`` under names by which Spark's workers can import it."""

from __future__ import annotations

import os

from bench import apps
from bench.spark_topics import LIVE, OUTPUT, SOURCE_VARIABLE

_PLACES: tuple[str, str, dict[str, object]] = (os.environ[SOURCE_VARIABLE], OUTPUT, {})

app = apps.wordcount("bench-spark", *_PLACES)
expressions = apps.by_expressions("bench-spark-expressions", *_PLACES)
live = apps.wordcount("bench-spark-live", LIVE, OUTPUT, {})
