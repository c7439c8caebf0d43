"""The alert rules in ``deploy/`` are of metrics that there are, and each has a runbook entry."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
RULES = ROOT / "deploy" / "prometheus" / "alerts.yml"
PAGE = (ROOT / "docs" / "operations" / "alerts.md").read_text("utf-8")


def alerts() -> dict[str, str]:
    """The text of each rule, by the name of its alert."""
    parts = re.split(r"- alert: (\w+)\n", RULES.read_text("utf-8"))[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_each_alert_is_of_metrics_that_there_are() -> None:
    known = set(re.findall(r"`(streamlet_\w+)`", (ROOT / "docs" / "metrics.md").read_text("utf-8")))
    used = {name: set(re.findall(r"streamlet_\w+", text)) for name, text in alerts().items()}
    assert used
    assert {name: found - known for name, found in used.items() if not found or found - known} == {}


def test_each_alert_has_a_runbook_entry_and_each_entry_an_alert() -> None:
    entries = re.findall(r"^## (\w+)\n\n.+?\n\n- Look .+?\n- ", PAGE, re.M | re.S)
    assert entries == list(alerts())
    links = {name: f"docs/operations/alerts.md#{name.lower()}" for name in alerts()}
    assert {name: link for name, link in links.items() if link not in alerts()[name]} == {}


def test_promtool_finds_that_each_alert_fires_when_it_should() -> None:
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("there is no promtool here (Debian's package prometheus has it)")
    tests = RULES.with_name("alerts_test.yml")
    assert set(re.findall(r"alertname: (\w+)", tests.read_text("utf-8"))) == alerts().keys()
    words = [tool, "test", "rules", tests.name]
    done = subprocess.run(words, cwd=RULES.parent, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
