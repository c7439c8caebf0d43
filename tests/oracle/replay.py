"""Replays recorded steps through ``TopologyTestDriver``; results have the shape of a case file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import streamlet as sl
from streamlet.errors import StreamletError
from streamlet.testing import TopologyTestDriver
from tests.unit.inside import inside

Build = Callable[[sl.App], None]


def replay(case: Mapping[str, Any], build: Build, optimization: str = "none") -> dict[str, Any]:
    """The case file that streamlet would have given; a run that fails has an ``error``."""
    runs = [replay_run(run, build, optimization) for run in case["runs"]]
    return {"topology": case["topology"], "runs": runs}


def replay_run(run: Mapping[str, Any], build: Build, optimization: str = "none") -> dict[str, Any]:
    """One run: its steps, then the outputs after each step and the named stores at the end."""
    app = sl.App("oracle", config={"topology.optimization": optimization})
    build(app)
    outputs: list[dict[str, Any]] = []
    result = {"seed": run["seed"], "steps": run["steps"], "outputs": outputs}
    with TopologyTestDriver(app, start_ms=0) as driver:
        try:
            for number, step in enumerate(run["steps"]):
                _do(driver, step)
                outputs += _outputs(driver, number)
        except StreamletError as error:
            return {**result, "error": f"{type(error).__name__}: {error}"}
        return {**result, "stores": _stores(app, driver)}


def _do(driver: TopologyTestDriver, step: Mapping[str, Any]) -> None:
    if "advance_wall_clock_ms" in step:
        driver.advance_wall_clock(step["advance_wall_clock_ms"])
        return
    headers = [(name, value.encode()) for name, value in step.get("headers", ())]
    record = step["topic"], step["key"], step["value"], step["timestamp"]
    driver.pipe_input(*record, headers=headers or None)


def _outputs(driver: TopologyTestDriver, step: int) -> list[dict[str, Any]]:
    outputs = []
    for topic in driver.produced_topic_names():
        for record in driver.read_output(topic):
            output: dict[str, Any] = {
                "topic": topic,
                "key": _plain(record.key),
                "value": record.value,
                "timestamp": record.timestamp,
            }
            if record.headers:
                texts = [[name, (value or b"").decode()] for name, value in record.headers]
                output["headers"] = texts
            outputs.append({**output, "after_step": step})
    return outputs


def _stores(app: sl.App, driver: TopologyTestDriver) -> dict[str, list[dict[str, Any]]]:
    specs = [spec for part in app.topology().subtopologies for spec in part.stores if spec.named]
    specs += [table.store for table in app.topology().global_tables if table.store.named]
    return {spec.name: _entries(inside(driver, spec.name)) for spec in specs}


def _entries(store: Any) -> list[dict[str, Any]]:
    time_of = getattr(store, "timestamp", lambda key: None)
    entries = [(key, value, time_of(key)) for key, value in store.range()]
    return [
        {"key": _plain(key), "value": value, **({} if time is None else {"timestamp": time})}
        for key, value, time in entries
    ]


def _plain(key: Any) -> Any:
    """A windowed key as case files have it, any other one as it is."""
    return key._asdict() if isinstance(key, sl.Windowed) else key
