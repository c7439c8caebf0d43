"""Orders from Kafka joined with customers from a Parquet table, by Spark, into Parquet.

    streamlet broker start
    streamlet topics create orders --partitions 4
    python -m examples.customers_parquet customers/ priced/ checkpoint/

``customers/`` has Parquet files with the columns ``id``, ``name`` and ``discount``. Files that come
later are newer rows of the table. It ends when all orders that are there are written.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import streamlet as sl


@dataclass
class Customer:
    name: str
    discount: float = 0.0


@dataclass
class Order:
    order: int
    amount: float


@dataclass
class PricedOrder:
    order: int
    name: str
    price: float


def priced(order: Order, customer: Customer) -> PricedOrder:
    return PricedOrder(order.order, customer.name, order.amount * (1 - customer.discount))


app = sl.App("priced-orders")
customers = app.table("customers", key=str, value=Customer)
orders = app.stream("orders", key=str, value=Order)
orders.join(customers, priced).to("priced", value=PricedOrder)


def main(table: str, out: str, checkpoint: str, bootstrap_servers: str = "localhost:9092") -> None:
    spark = sl.spark.session("priced orders")
    try:
        files = spark.readStream.schema("id string, name string, discount double").parquet(table)
        frame = sl.spark.to_dataframe(
            app,
            spark,
            sources={"customers": sl.spark.FrameSource(files, key="id")},
            bootstrap_servers=bootstrap_servers,
        )
        query = (
            frame.select("key", "value.*", "timestamp")
            .writeStream.foreachBatch(lambda batch, _: batch.write.mode("append").parquet(out))
            .outputMode("update")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    finally:
        sl.spark.stop(spark)


if __name__ == "__main__":
    main(*sys.argv[1:])
