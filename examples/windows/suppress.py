"""Suppress: alarms as they come, and a report on each hour once it is over.

    streamlet broker start
    streamlet topics create requests busy-hours hourly-report --partitions 4
    streamlet run examples.windows.suppress:app

The counts of requests per page and hour have two readers. ``busy-hours`` gets each update beyond a
thousand at once. ``hourly-report`` gets one record for each page and hour, when a request comes
that is five minutes younger than the hour. Hours that are not over wait in the store ``report``.
"""

from __future__ import annotations

import streamlet as sl

app = sl.App("requests")

requests = app.stream("requests", key=str, value=str)
hours = requests.group_by_key().windowed_by(sl.tumbling("1h", grace="5m"))
counts = hours.count(store="requests-per-hour")

counts.to_stream().filter(lambda hour, count: count > 1_000).to("busy-hours")
counts.suppress(sl.until_window_closes(), store="report").to_stream().to("hourly-report")
