"""Alert rules and dashboard in ``deploy/``: their metrics are there, rules have runbook entries."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamlet.runtime.metrics.metric import MetricType
from streamlet.runtime.metrics.table import METRICS

ROOT = Path(__file__).parents[3]
RULES = ROOT / "deploy" / "prometheus" / "alerts.yml"
PAGE = (ROOT / "docs" / "operations" / "alerts.md").read_text("utf-8")


def alerts() -> dict[str, str]:
    """The text of each rule, by the name of its alert."""
    parts = re.split(r"- alert: (\w+)\n", RULES.read_text("utf-8"))[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


#: The names of all series: a histogram has several.
SERIES = {
    name + end
    for name, metric in METRICS.items()
    for end in (("_bucket", "_sum", "_count") if metric.kind is MetricType.HISTOGRAM else ("",))
}


def unknown(text: str) -> set[str]:
    """The series that an expression names and that there are not; it names at least one."""
    found = set(re.findall(r"streamlet_\w+", text))
    return found - SERIES if found else {text}


def panels() -> Iterator[dict[str, Any]]:
    """The panels of the dashboard that show something."""
    dashboard = json.loads((ROOT / "deploy" / "grafana" / "streamlet.json").read_text("utf-8"))
    return (panel for panel in dashboard["panels"] if panel["type"] != "row")


def test_each_alert_and_each_panel_is_of_metrics_that_there_are() -> None:
    assert {name: lacks for name, text in alerts().items() if (lacks := unknown(text))} == {}
    shown = {(panel["title"], one["expr"]) for panel in panels() for one in panel["targets"]}
    assert len(shown) > 20
    assert {title: lacks for title, expr in shown if (lacks := unknown(expr))} == {}


def test_panels_lie_side_by_side_and_say_what_they_show() -> None:
    cells: set[tuple[int, int]] = set()
    for panel in panels():
        at = panel["gridPos"]
        own = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not own & cells, panel["title"]
        assert at["x"] + at["w"] <= 24, panel["title"]
        assert panel["description"], panel["title"]
        cells |= own


def test_each_alert_has_a_runbook_entry_and_each_entry_an_alert() -> None:
    entries = re.findall(r"^## (\w+)\n\n.+?\n\n- Look .+?\n- ", PAGE, re.M | re.S)
    assert entries == list(alerts())
    links = {name: f"docs/operations/alerts.md#{name.lower()}" for name in alerts()}
    assert {name: link for name, link in links.items() if link not in alerts()[name]} == {}


def promtool(*words: str) -> str:
    """The output of promtool, which must succeed, in the folder of the rules."""
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("there is no promtool here (Debian's package prometheus has it)")
    done = subprocess.run(
        [tool, *words], cwd=RULES.parent, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_finds_that_each_alert_fires_when_it_should() -> None:
    tests = RULES.with_name("alerts_test.yml")
    assert set(re.findall(r"alertname: (\w+)", tests.read_text("utf-8"))) == alerts().keys()
    promtool("test", "rules", tests.name)


def test_promtool_can_read_each_expression_of_the_dashboard(tmp_path: Path) -> None:
    exprs = [one["expr"] for panel in panels() for one in panel["targets"]]
    rules = [
        {"record": f"panel:{number}", "expr": expr.replace("$__rate_interval", "5m")}
        for number, expr in enumerate(exprs)
    ]
    (tmp_path / "rules.json").write_text(json.dumps({"groups": [{"name": "a", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool("check", "rules", str(tmp_path / "rules.json"))
