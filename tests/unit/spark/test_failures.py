"""What a query failed of, by types of exceptions: nothing that users write counts."""

from __future__ import annotations

import ast
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamlet import errors
from streamlet.spark.cluster.gateway import shown_events
from streamlet.spark.error_notes import reported, reported_rows
from streamlet.spark.failures import Link, failure

ROOT = Path(__file__).resolve().parents[3] / "streamlet" / "spark"
RAISED = "org.apache.spark.api.python.PythonException"
#: What records and functions of users might say to be taken for something else.
HOSTILE = (
    "\nstreamlet.errors.UnreachableError: no broker",
    '\nstreamlet reports: ["UnreachableError", "no broker"]\n',
    "\u2028streamlet reports: [null, null]",
    " Python in worker has different version: 3.12 than that in driver: 3.11",
    ' Cannot run program "python3"',
    f"\nCaused by: {RAISED}: x",
)


def raised(error: Exception) -> str:
    """The text that Spark gets of an error in a worker."""

    @reported
    def call() -> None:
        raise error

    @reported_rows
    def rows() -> Iterator[int]:
        yield 1
        call()

    with pytest.raises(type(error)) as caught:
        list(rows())
    return "".join(traceback.format_exception(caught.value))


def links(trace: str, *, condition: str | None = None, kind: str = RAISED) -> list[Link]:
    said = {"msg": "An exception was thrown from the Python worker", "traceback": trace}
    query = Link("org.apache.spark.sql.streaming.StreamingQueryException", "[STREAM_FAILED] Job")
    return [query, Link(kind, f"[PYTHON] {trace}", condition, said)]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("kind", [errors.SerdeError, errors.StateError])
def test_an_error_of_a_record_is_that_whatever_it_says(text: str, kind: type[Exception]) -> None:
    error = kind(f"a record failed at t-0: {text}")
    found = failure(links(raised(error)))
    assert not found.by_chance
    assert f"query failed: a record failed at t-0: {text}" in str(found)


@pytest.mark.parametrize("text", [*HOSTILE, "100%5C %25 \\n \\"])
def test_the_line_in_the_log_is_that_of_the_error(text: str) -> None:
    """Spark's log has ends of lines as a backslash and a letter."""
    trace = raised(errors.SerdeError(f"a record: {text}"))
    event = "spark ERROR Executor: Exception in task\\n" + trace.replace("\n", "\\n") + "\n"
    [shown] = shown_events([event.encode()], verbose=False)
    said = " ".join(f"a record: {text}".split())
    assert (
        shown.decode()
        == f"spark ERROR Executor: Exception in task: streamlet.errors.SerdeError: {said}\n"
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_errors_of_code_do_not_pass_whatever_they_say(text: str) -> None:
    found = failure(links(raised(KeyError(text))))
    assert not found.by_chance
    assert str(found) == "the Spark query failed: [STREAM_FAILED] Job"


@pytest.mark.parametrize("kind", ["BrokerError", "UnreachableError", "DeliveryError"])
def test_a_broker_that_is_away_may_be_back(kind: str) -> None:
    trace = raised(getattr(errors, kind)("no broker"))
    assert failure(links(trace)).by_chance
    planned = links(trace, condition="PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR", kind="a.B")
    assert failure(planned).by_chance
    assert str(failure(planned)) == "the Spark query failed: no broker"


def test_an_error_keeps_its_exit_code() -> None:
    found = failure(links(raised(errors.PositionsMismatchError("made again"))))
    assert (found.exit_code, found.by_chance) == (errors.PositionsMismatchError.exit_code, False)


def test_what_no_python_raised_may_pass() -> None:
    lost = Link("org.apache.spark.SparkException", "ExecutorLostFailure\nworker exited (crashed)")
    assert failure([lost]).by_chance
    silent = Link("java.io.EOFException", "")
    found = failure([Link("a.B", "Query terminated with exception:  SQLSTATE: XXKST"), silent])
    assert str(found).endswith("SQLSTATE: XXKST: java.io.EOFException")
    said = Link("a.CsvError", "Malformed record: " + "".join(HOSTILE))
    assert str(failure([said])).startswith("the Spark query failed: Malformed record")
    assert failure([said]).by_chance


def test_an_executor_without_a_python_that_fits_is_told_in_a_line() -> None:
    said = "Python in worker has different version: 3.12 than that in driver: 3.11"
    trace = f"pyspark.errors.exceptions.base.PySparkRuntimeError: {said}"
    for found in (
        failure(links(trace)),
        failure([Link("java.io.IOException", 'Cannot run program "python9": error=2')]),
    ):
        assert "an executor does not fit: it" in str(found)
        assert not found.by_chance


def test_all_that_spark_calls_in_python_bears_notes() -> None:
    """Functions over rows, tasks and the source: an error without a note is none of ours."""
    called = {"__call__", "init", "handleInputRows", "close", "initialOffset", "latestOffset"}
    called |= {"reportLatestOffset", "prepareForTriggerAvailableNow", "partitions", "read"}
    found = {}
    for file in sorted(ROOT.rglob("*.py")):
        for one in ast.walk(ast.parse(file.read_text("utf-8"))):
            if not isinstance(one, ast.ClassDef):
                continue
            bases = {ast.unparse(base) for base in one.bases}
            spark = bases & {"StatefulProcessor", "DataSourceStreamReader"}
            for method in one.body:
                if not isinstance(method, ast.FunctionDef) or method.name not in called:
                    continue
                if spark or ast.unparse(method.args).startswith("self, batches: Iterator[pa."):
                    noting = {ast.unparse(by) for by in method.decorator_list}
                    found[f"{one.name}.{method.name}"] = bool(
                        noting & {"reported", "reported_rows"}
                    )
    assert len(found) == 19
    assert [name for name, noting in found.items() if not noting] == []
