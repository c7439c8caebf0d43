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
