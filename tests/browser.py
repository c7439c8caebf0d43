"""Chromium without a window, for tests of pages."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

#: How long a page may take for anything, s; a machine may be slow.
PATIENCE_S = 120
_AXE = "axe-core@4.14.1"
_AXE_SHA256 = "e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745"
#: How long a package may take to come, s.
_FETCH_S = 20


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


@cache
def _axe() -> tuple[str, str]:
    """The script of axe-core, or the reason why it is not to be had."""
    npm = shutil.which("npm")
    if npm is None:
        return "", f"no npm to fetch {_AXE} with"
    once = ["--silent", "--fetch-retries=0", f"--fetch-timeout={_FETCH_S * 1_000}"]
    with tempfile.TemporaryDirectory() as folder:
        try:
            subprocess.run([npm, "pack", _AXE, *once], cwd=folder, check=True, timeout=2 * _FETCH_S)
        except subprocess.SubprocessError as error:
            return "", f"npm does not give {_AXE}: {error}"
        packed = next(Path(folder).glob("*.tgz"))
        assert hashlib.sha256(packed.read_bytes()).hexdigest() == _AXE_SHA256
        with tarfile.open(packed) as archive:
            file = archive.extractfile("package/axe.min.js")
            assert file is not None
            return file.read().decode(), ""


def hindrances(browser: Any) -> list[Any]:
    """The serious findings of axe-core about the page that is shown; skips without it."""
    script, lacks = _axe()
    if not script:
        pytest.skip(lacks)
    browser.execute_cdp_cmd("Runtime.evaluate", {"expression": script})
    found = browser.execute_async_script(
        "const done = arguments[0]; axe.run().then((all) => done(all.violations.map((one) =>"
        "  [one.impact, one.id, one.nodes.map((node) => node.html)])))"
    )
    return [one for one in found if one[0] in ("serious", "critical")]
