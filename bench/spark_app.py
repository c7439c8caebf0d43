"""The word count of ``bench/apps.py`` under names by which Spark's workers can import it."""

from __future__ import annotations

import os

from bench import apps
from bench.spark_topics import LIVE, OUTPUT, SOURCE_VARIABLE

app = apps.wordcount("bench-spark", os.environ[SOURCE_VARIABLE], OUTPUT, {})
live = apps.wordcount("bench-spark-live", LIVE, OUTPUT, {})
