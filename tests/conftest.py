"""What all tests share; the fixtures of a real broker come from ``streamlet.testing.plugin``."""

from __future__ import annotations

import os

import hypothesis
import pytest

# CI has no example database and shared cores: the same examples each run, and no time limit on one.
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.register_profile("dev", deadline=None, max_examples=50)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_configure(config: pytest.Config) -> None:
    """Load our fixtures also where the package is on the path but not installed."""
    if not config.pluginmanager.hasplugin("streamlet"):
        config.pluginmanager.import_plugin("streamlet.testing.plugin")


#: The suites in the order in which they begin: what takes longest must not begin last.
_LONGEST_FIRST = ("spark", "chaos", "simulation", "integration")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Longest suites first; one process for each file, and one for all of Spark (one session)."""
    items.sort(key=_turn)  # stable: inside a suite and a file the order stays
    if config.pluginmanager.hasplugin("xdist"):
        for item in items:
            group = "spark" if item.get_closest_marker("spark") else item.nodeid.partition("::")[0]
            item.add_marker(pytest.mark.xdist_group(group))


def _turn(item: pytest.Item) -> int:
    for turn, marker in enumerate(_LONGEST_FIRST):
        if item.get_closest_marker(marker):
            return turn
    return len(_LONGEST_FIRST)
