"""A function with state and timers: sensors that have been silent for five minutes.

    streamlet broker start
    streamlet topics create readings alarms --partitions 4
    streamlet run examples.processors.silence:app

Each reading sets the timer of its sensor to five minutes later. Where none comes in between,
``silent`` is called, and ``alarms`` gets the sensor with its last value. The dict of a sensor and
its timer are in stores with changelogs: a worker that dies, or another host that takes the task
over, forgets none. Readings that are sent twice within ten seconds count once.
"""

from __future__ import annotations

import streamlet as sl

app = sl.App("sensors")


def watch(reading: sl.Record[str, float], state: sl.State[str]) -> None:
    """Note a reading."""
    state["last"] = reading.value
    state["count"] = state.get("count", 0) + 1
    state.timer(after="5m")


def silent(timer: sl.Timer[str], state: sl.State[str]) -> tuple[str, str]:
    """Tell of a sensor without a reading, and forget it."""
    told = f"silent after {state['count']} readings, the last was {state['last']}"
    state.clear()
    return timer.key, told


readings = app.stream("readings", key=str, value=float).deduplicate("10s", grace="1m")
readings.process(watch, on_timer=silent, key=str, value=str, name="watch").to("alarms")
