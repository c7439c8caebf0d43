"""One version stands in the package, the chart, the changelog and the tag."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[3]


def test_package_chart_changelog_and_tag_have_one_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    chart = yaml.safe_load((ROOT / "deploy/helm/streamlet/Chart.yaml").read_text("utf-8"))
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert newest is not None
    assert (chart["version"], chart["appVersion"], newest[1]) == (version, version, version)
    done = subprocess.run(
        ["git", "tag", "--points-at", "HEAD", "v*"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() in ([], [f"v{version}"])
