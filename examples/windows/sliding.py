"""Sliding windows: cards with more than three payments within a minute.

    streamlet broker start
    streamlet topics create payments suspects --partitions 4
    streamlet run examples.windows.sliding:app

There is a window for each minute that holds another set of payments, whenever it begins. So no
three payments close to each other are missed because a window ends between them. The topic
``suspects`` has the card, and how many payments it had in such a minute.
"""

from __future__ import annotations

import streamlet as sl

MOST = 3

app = sl.App("suspect-cards")

payments = app.stream("payments", key=str, value=int)
minutes = payments.group_by_key().windowed_by(sl.sliding("1m", grace="10s"))
counts = minutes.count(store="payments").to_stream()
many = counts.filter(lambda window, count: count > MOST)
many.map(lambda window, count: (window.key, count), key=str, value=int).to("suspects")
