"""Chromium without a window, for tests of pages."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

#: How long a page may take for anything, s; a machine may be slow.
PATIENCE_S = 120


@contextmanager
def chromium(profile: Path) -> Iterator[Any]:
    """A browser with this folder as its profile; the test is skipped where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("no browser: install the system's packages chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for one in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage"):
        options.add_argument(f"--{one}")
    options.add_argument(f"--user-data-dir={profile}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options, webdriver.ChromeService(driver))
    found.set_script_timeout(PATIENCE_S)
    try:
        yield found
    finally:
        found.quit()


def show(browser: Any, url: str, *, width: int, height: int, scheme: str = "light") -> None:
    """Open a page in a window of this size, light or dark."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.get(url)


def wait(browser: Any, holds: Callable[[], object]) -> None:
    """Wait until this holds on the page."""
    support = pytest.importorskip("selenium.webdriver.support.ui")
    support.WebDriverWait(browser, PATIENCE_S, poll_frequency=0.1).until(lambda _: holds())


def complaints(browser: Any) -> list[str]:
    """Errors that the pages have led to since this was asked last."""
    return [one["message"] for one in browser.get_log("browser") if one["level"] == "SEVERE"]
