"""Word count by Spark: the application of ``examples.wordcount``, unchanged.

    streamlet broker start
    streamlet topics create lines word-counts --partitions 4
    python -m examples.wordcount_spark /tmp/word-count-checkpoint

Ctrl-C ends it. Started again with the same folder it goes on where it was.
"""

from __future__ import annotations

import sys

import streamlet as sl
from examples.wordcount import app


def main(checkpoint: str, bootstrap_servers: str = "localhost:9092", trigger: str = "1s") -> None:
    spark = sl.spark.session("word count")
    try:
        query = sl.spark.start(
            app,
            spark,
            checkpoint=checkpoint,
            trigger=trigger,
            bootstrap_servers=bootstrap_servers,
        )
        query.awaitTermination()
    except KeyboardInterrupt:
        print("ended", file=sys.stderr)
    finally:
        sl.spark.stop(spark)


if __name__ == "__main__":
    main(*sys.argv[1:])
