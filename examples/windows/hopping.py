"""Hopping windows: the highest temperature of each sensor in the last ten minutes, every minute.

    streamlet broker start
    streamlet topics create temperatures highest --partitions 4
    streamlet run examples.windows.hopping:app

Windows of ten minutes begin at each minute, so that a reading is in ten of them. The topic
``highest`` has the newest maximum of every sensor and window.
"""

from __future__ import annotations

import streamlet as sl

app = sl.App("highest-temperatures")

readings = app.stream("temperatures", key=str, value=float)
ten_minutes = readings.group_by_key().windowed_by(sl.hopping("10m", "1m", grace="30s"))
ten_minutes.reduce(max, store="highest").to_stream().to("highest")
