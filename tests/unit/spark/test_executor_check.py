"""What an executor's Python is found to lack, and how that is told."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import examples.wordcount
from streamlet.spark.cluster import executor_check
from streamlet.spark.cluster.executor_check import LOADED, NEEDED, look, package_hash, topology_hash
from streamlet.spark.cluster.executors import Answer, reason
from streamlet.spark.cluster.gateway import error_line
from streamlet.spark.cluster.own_modules import package_files, zipped
from streamlet.spark.cluster.session import _found_on_path
from streamlet.spark.cluster.shipping import is_local, problems

pytest.importorskip("pyspark")

APP = "examples.wordcount:app"
OWN = package_hash("streamlet")
TOPOLOGY = topology_hash(examples.wordcount.app)


def test_a_python_that_has_all_lacks_nothing() -> None:
    assert look(APP, OWN, TOPOLOGY, __file__) == {}


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ((APP, "another", TOPOLOGY, None), {"streamlet": "other"}),
        (("nowhere:app", OWN, TOPOLOGY, None), {"application"}),
        ((APP, OWN, "another", None), {"topology": TOPOLOGY}),
        ((APP, OWN, TOPOLOGY, "/nowhere/file"), {"checkpoint": "/nowhere"}),
    ],
)
def test_the_first_thing_that_differs_is_found(
    wanted: tuple[str, str, str, str | None], found: dict[str, str] | set[str]
) -> None:
    here = look(*wanted)
    assert here == found if isinstance(found, dict) else here.keys() == found


def test_what_cannot_travel_is_found_by_the_name_it_is_installed_by(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(executor_check.NEEDED, "no_such_module", "no-such-package")
    monkeypatch.setitem(executor_check.NEEDED, "no_such.module", "another")
    assert look(APP, OWN, TOPOLOGY, None) == {"lacks": ["another", "no-such-package"]}


def test_all_that_executors_load_from_elsewhere_is_looked_for() -> None:
    program = f"import sys\nfor one in {LOADED!r}: __import__(one)\nprint(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    tops = {name.partition(".")[0] for name in loaded.split() if "_cython_" not in name}
    foreign = tops - set(sys.stdlib_module_names) - {"streamlet", "pyspark", "py4j", "__main__"}
    # Parts of those packages, and what Python itself loads.
    foreign -= {"attr", "cython_runtime", "sitecustomize", "typing_extensions", "usercustomize"}
    foreign = {name for name in foreign if not name.startswith(("_sysconfig", "_distutils"))}
    assert foreign <= {name.partition(".")[0] for name in NEEDED}


def test_processes_that_plan_for_the_driver_load_nothing_that_runs_tasks() -> None:
    """Each query starts some; they get the source and the stages, and never run either."""
    modules = "streamlet.spark.kafka.python_kafka, streamlet.spark.state.processor"
    program = f"import sys\nimport {modules}\nprint(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    running = {"confluent_kafka", "pyarrow", "streamlet.processing.task", "streamlet.topology"}
    assert running.isdisjoint(loaded)
    assert "streamlet.spark.state.processor" in loaded


def test_a_package_has_the_same_hash_in_a_zip(tmp_path: Path) -> None:
    path = zipped(package_files("streamlet"), "streamlet", tmp_path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("other/file.py", "")
    program = (
        "import importlib.util, sys\n"
        f"sys.path.insert(0, {str(path)!r})\n"
        "here = importlib.util.spec_from_file_location('check', sys.argv[1])\n"
        "check = importlib.util.module_from_spec(here)\n"
        "here.loader.exec_module(check)\n"
        "print(check.package_hash('streamlet'))"
    )
    words = [sys.executable, "-S", "-c", program, executor_check.__file__]
    ended = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert ended.stdout.strip() == OWN
    assert package_hash("nowhere") == ""


def test_executors_that_lack_the_same_share_a_line() -> None:
    answers = [
        Answer("1 on b", {"lacks": ["rocksdict"]}),
        Answer("0 on a", {"lacks": ["rocksdict"]}),
        Answer("1 on b", {"lacks": ["rocksdict"]}),
        Answer("2 on c", {}),
        Answer("3 on d", {"checkpoint": "/data"}),
    ]
    first, second = problems(APP, answers)
    assert first.startswith("executor 0 on a, 1 on b: its Python lacks rocksdict; install")
    assert second.startswith("executor 3 on d: the checkpoint /data is not the driver's folder")


@pytest.mark.parametrize("what", ["streamlet", "broken", "application", "topology", "failed"])
def test_each_finding_is_one_line(what: str) -> None:
    [line] = problems(APP, [Answer("0 on a", {what: "first\nsecond"})])
    assert line.startswith("executor 0 on a: ")
    assert "\n" not in line


def test_sparks_traces_become_a_line() -> None:
    other = reason(
        "Traceback (most recent call last):\n  File ...\npyspark.errors.PySparkRuntimeError: "
        "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in "
        "driver: 3.11, PySpark cannot run with different minor versions.\n"
    )
    assert other is not None
    assert other.startswith("its Python is 3.12 and the driver's 3.11; the two must be the same")
    none = reason('java.io.IOException: Cannot run program "python3.99": error=2, No such file')
    assert none is not None
    assert none.startswith("it has no Python python3.99")
    assert reason("ExecutorLostFailure (executor 1 exited)") is None


def test_the_line_of_a_trace_that_says_most_is_told() -> None:
    trace = "[PYTHON] Failed\n  File x\nModuleNotFoundError: No module named 'a'\n SQL: 1"
    assert error_line(trace) == "ModuleNotFoundError: No module named 'a'"
    assert error_line("first\n  at x") == "first"
    assert error_line("\n") == "no reason given"


def test_a_python_of_an_archive_is_put_on_the_executors_path() -> None:
    settings: dict[str, str] = {}
    assert _found_on_path("./env/bin/python3", settings) == "python3"
    assert settings["spark.executorEnv.PATH"].startswith("./env/bin:/usr/local/sbin:")
    settings = {}
    assert _found_on_path("/opt/bin/python", settings) == "/opt/bin/python"
    assert (_found_on_path("python3.11", settings), settings) == ("python3.11", {})


def test_only_local_masters_without_executors_are_local() -> None:
    masters = ["local", "local[2]", "local[2,4]", "local-cluster[2,1,600]", "spark://h:1", "yarn"]
    assert [is_local(one) for one in masters] == [True, True, True, False, False, False]
