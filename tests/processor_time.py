"""A pytest plugin that says which tests take the processor: ``-p tests.processor_time``.

Counted is what the test's process and all that it started used meanwhile, seconds: what a broker of
the whole run does for a test is that test's. The table has the files and the tests that used most.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator
from typing import Final

import psutil
import pytest

#: The name under which a report carries the seconds.
_SECONDS: Final = "processor_s"
_MOST: Final = 60
_BEFORE: Final = pytest.StashKey[float]()


def used_s(below: bool) -> float:
    """Seconds of the processor that this process used, and with ``below`` all that it started."""
    ours = sum(os.times()[:4])
    if below:
        for one in psutil.Process().children(recursive=True):
            try:
                times = one.cpu_times()
            except psutil.NoSuchProcess:
                continue
            ours += times.user + times.system + times.children_user + times.children_system
    return ours


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Begin to measure a test, with its fixtures."""
    item.stash[_BEFORE] = used_s(_starts_others(item))
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Note what the test used, for its last report; the end of the whole run is no test's."""
    if nextitem is None:
        return (yield)
    try:
        return (yield)
    finally:
        used = used_s(_starts_others(item)) - item.stash[_BEFORE]
        item.user_properties.append((_SECONDS, max(0.0, used)))


def _starts_others(item: pytest.Item) -> bool:
    return item.get_closest_marker("integration") is not None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table."""
    by_test: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport) and report.when == "teardown":
                by_test[report.nodeid] += _seconds(report)
    by_file: Counter[str] = Counter()
    for nodeid, seconds in by_test.items():
        by_file[nodeid.partition("::")[0]] += seconds
    terminalreporter.section("seconds of the processor")
    terminalreporter.write_line(f"{sum(by_test.values()):9.1f} all tests")
    for used in (by_file, by_test):
        terminalreporter.write_line("")
        for name, seconds in used.most_common(_MOST):
            terminalreporter.write_line(f"{seconds:9.1f} {name}")


def _seconds(report: pytest.TestReport) -> float:
    return sum(float(str(value)) for name, value in report.user_properties if name == _SECONDS)
