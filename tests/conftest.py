"""What all tests share; the fixtures of a real broker come from ``streamlet.testing.plugin``."""

from __future__ import annotations

import gc
import logging
import os
import signal
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path

import hypothesis
import pytest

from streamlet.broker.node import OPTIONS_VARIABLE
from streamlet.broker.server import KafkaBroker
from streamlet.garbage import without_gc
from streamlet.kafka.outage_lines import outage_lines
from streamlet.testing.broker import broker_choice
from tests.shares import share_of, share_of_cases

_ROOT = Path(__file__).resolve().parents[1]

# CI has no example database and shared cores: the same examples each run, and no time limit on one.
hypothesis.settings.register_profile(
    "ci", deadline=None, derandomize=True, print_blob=True, max_examples=share_of(50)
)
hypothesis.settings.register_profile("dev", deadline=None, max_examples=share_of(50))
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "dev")

# A shell that starts tests in the background has them ignore Ctrl-C, and with them all processes
# that they start and interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Of brokers that live for some minutes; compiling more would cost them more than it spares.
os.environ.setdefault(OPTIONS_VARIABLE, "-XX:TieredStopAtLevel=1")


def pytest_configure(config: pytest.Config) -> None:
    """Load our fixtures also where the package is on the path but not installed."""
    if not config.pluginmanager.hasplugin("streamlet"):
        config.pluginmanager.import_plugin("streamlet.testing.plugin")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep what was loaded out of garbage collections: it stays, and each would look through it."""
    with without_gc():
        try:
            return (yield)
        finally:
            gc.freeze()


@pytest.fixture(autouse=True)
def log_as_it_was() -> Iterator[None]:
    """Forget where a command sent the log, and what of it: its output is gone with its test.

    PySpark has loggers for its errors that make whatever handler they get one of JSON lines, and
    pytest hands its own to each logger that does not propagate.
    """
    loggers = [logging.getLogger(name) for name in (None, "kafka", "streamlet")]
    levels = [logger.level for logger in loggers]
    formatters = [(handler, handler.formatter) for handler in loggers[0].handlers]
    yield
    for one in logging.Logger.manager.loggerDict.values():
        if isinstance(one, logging.Logger) and type(one).__module__.startswith("pyspark."):
            one.propagate = True
    for kept, formatter in formatters:
        kept.setFormatter(formatter)
    for handler in loggers[0].handlers[:]:
        if type(handler) is logging.StreamHandler:  # pytest's own are of other kinds
            loggers[0].removeHandler(handler)
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
    outage_lines.__init__()  # a worker that a test leaves as it is would keep lines back for good


@pytest.fixture(autouse=True)
def broker_up(request: pytest.FixtureRequest) -> None:
    """Start the run's broker again where a test failed and left it down: the next ones need it."""
    asked = {"bootstrap_servers", "kafka_broker"}.intersection(request.fixturenames)
    if asked and broker_choice() == "embedded":
        broker: KafkaBroker = request.getfixturevalue("kafka_broker")
        broker.start()


#: The suites in the order in which they begin: what takes longest must not begin last.
_LONGEST_FIRST = ("spark", "chaos", "simulation", "integration")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Longest suites first; of what is tried with many arguments the share that is asked for.

    Tests with the mark ``long`` are left out unless ``-m`` asks for them.
    """
    with_long = "long" in config.option.markexpr
    asked = [item for item in items if with_long or not item.get_closest_marker("long")]
    kept = share_of_cases(item.nodeid for item in asked)
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in kept])
    items[:] = [item for item in items if item.nodeid in kept]
    items.sort(key=_turn)  # stable: inside a suite and a file the order stays


def _turn(item: pytest.Item) -> tuple[int, bool]:
    """The turn of a test: that of its suite, and in it first the groups, which one process runs."""
    marked = (turn for turn, one in enumerate(_LONGEST_FIRST) if item.get_closest_marker(one))
    return next(marked, len(_LONGEST_FIRST)), group(item.nodeid) == item.nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object | None:
    """Spark's tests in as many processes as there are groups; all others one by one.

    A Spark session of its own for each process would take longer than the tests. The mark
    ``xdist_group`` does nothing here: xdist 3.8 writes it to where pytest 9.2 does not look.
    """
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group(nodeid)

    return Groups(config, log)


#: Files of Spark's tests whose sessions are their own programs'; each may run anywhere.
_PROGRAMS = ("bench", "example", "run_command")
#: Files whose tests share what each process would do again: parse all sources, read mypy's cache.
_SHARING = ("tests/test_tidy.py", "tests/typing/test_typing.py", "tests/unit/docs/test_names.py")
#: The group of all others, which share a session: it takes half a processor's minute to start one.
_SESSION = "spark"


def group(nodeid: str) -> str:
    """Of the tests that one process runs one after the other."""
    path = nodeid.partition("::")[0]
    _, _, rest = path.partition("integration/spark/test_")
    if rest:
        file = rest.removesuffix(".py")
        if file == "cluster":  # one for all its tests
            return "spark, cluster"
        return nodeid if file in _PROGRAMS else _SESSION
    return path if path in _SHARING or _has_fixture_of_all(path) else nodeid


@cache
def _has_fixture_of_all(path: str) -> bool:
    """True for a file with a fixture of all its tests: a broker of its own, a browser, a cache."""
    return 'scope="module"' in (_ROOT / path).read_text("utf-8")
