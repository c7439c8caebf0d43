"""A driver that starts from the folder of its application, and says what executors are refused for.

``drive.py BROKER CHECKPOINT TRIGGER [PYTHON…]``: each of these Pythons is tried first.
"""

from __future__ import annotations

import sys

import streamlet as sl
from streamlet.errors import ConfigError


def main(broker: str, checkpoint: str, trigger: str, *pythons: str) -> None:
    spark = sl.spark.session(config={"spark.sql.shuffle.partitions": "2"})
    context = spark.sparkContext
    good = context.pythonExec

    def start() -> None:
        query = sl.spark.start(
            "shop:app",
            spark,
            checkpoint=checkpoint,
            trigger=trigger,
            bootstrap_servers=broker,
            max_records_per_batch=500,
        )
        print("runs", flush=True)
        query.awaitTermination()

    for python in pythons:
        context.pythonExec = python
        try:
            start()
        except ConfigError as error:
            print(f"refused: {error}", flush=True)
    context.pythonExec = good
    start()
    sl.spark.stop(spark)


if __name__ == "__main__":
    main(*sys.argv[1:])
