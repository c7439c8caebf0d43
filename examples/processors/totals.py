"""A processor with a store and a punctuator: what each account has spent, every minute.

    streamlet broker start
    streamlet topics create payments large-payments totals --partitions 4
    streamlet run examples.processors.totals:app

It is a class as of Kafka Streams' Processor API. The store ``totals`` drops accounts that paid
nothing for a day. Totals go to one child, payments of 1,000 and more to another.
"""

from __future__ import annotations

import streamlet as sl

app = sl.App("payments")


class Totals(sl.Processor[str, int, str, int]):
    """Adds up payments."""

    def init(self, context: sl.ProcessorContext[str, int]) -> None:
        """Find the store, and have ``send`` called."""
        self.context = context
        self.totals: sl.KeyValueStore[str, int] = context.store("totals")
        context.schedule("1m", "stream_time", self.send)

    def process(self, record: sl.Record[str, int]) -> None:
        """Add a payment."""
        self.totals.put(record.key, (self.totals.get(record.key) or 0) + record.value)
        if record.value >= 1_000:
            self.context.forward(record, "large")

    def send(self, time_ms: int) -> None:
        """Send all totals."""
        for account, total in self.totals.all():
            self.context.forward(sl.Record(account, total, time_ms), "total")


store = sl.key_value_store("totals", key=str, value=int, ttl="1d")
totals = app.stream("payments", key=str, value=int).process(Totals, stores=[store])
totals.child("large").to("large-payments")
totals.child("total").to("totals")
