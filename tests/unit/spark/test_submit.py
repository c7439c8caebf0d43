"""A driver inside the cluster: what spark-submit is given, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from streamlet.config import Settings
from streamlet.errors import ConfigError
from streamlet.spark.cluster.submit import SparkOptions, add_to_path, arguments, check, properties
from streamlet.tools.spark_arguments import SparkArguments

OPTIONS = SparkOptions(
    master="yarn",
    deploy_mode="cluster",
    checkpoint="hdfs:///words",
    py_files=("more.py",),
    archives=("env.tar.gz#env",),
    conf={"spark.executor.cores": "2"},
)


def test_spark_submit_gets_its_options_and_the_driver_those_of_the_run() -> None:
    words = arguments(
        "shop:app", OPTIONS, [Path("/t/app.zip")], Path("/t/s.properties"), Path("d.py")
    )
    at = words.index("d.py")
    assert words[:at] == [
        *("--master", "yarn", "--deploy-mode", "cluster", "--name", "shop:app"),
        *("--py-files", "/t/app.zip,more.py", "--archives", "env.tar.gz#env"),
        *("--files", "/t/s.properties", "--conf", "spark.executor.cores=2"),
    ]
    assert words[at + 1 :] == [
        *("run", "shop:app", "--engine=spark", "--config=s.properties"),
        *("--checkpoint=hdfs:///words", "--trigger=1s", "--max-records-per-batch=1000000"),
        *("--restarts=5", "--output=updates"),
        "--metrics-host=127.0.0.1",
    ]


@pytest.mark.parametrize(
    ("master", "checkpoint", "message"),
    [
        ("spark://h:7077", "hdfs:///words", "takes no driver in Python"),
        (None, "hdfs:///words", r"local\[\*\] takes no driver in Python"),
        ("k8s://h", "/data/words", "--checkpoint a URL"),
    ],
)
def test_a_cluster_that_cannot_keep_the_driver_is_refused(
    master: str | None, checkpoint: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        check(SparkOptions(master=master, checkpoint=checkpoint))


def test_settings_travel_as_a_file_that_reads_the_same(tmp_path: Path) -> None:
    file = tmp_path / "settings"
    given = ["sasl.password=a\\b=c", "bootstrap.servers=a:1", "bootstrap.servers=b:2"]
    file.write_text(properties(given))
    settings = Settings.load(file=file)
    assert settings.bootstrap_servers == "b:2"
    assert settings.security["sasl.password"] == "a\\b=c"


def test_files_for_executors_can_be_imported_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "one.py").touch()
    (tmp_path / "more.zip").touch()
    add_to_path([f"{tmp_path}/one.py", f"{tmp_path}/more.zip", "hdfs:///far.zip"])
    assert sys.path[:2] == [f"{tmp_path}/more.zip", str(tmp_path)]
    with pytest.raises(ConfigError, match=r"none\.py: no such file"):
        add_to_path([f"{tmp_path}/none.py"])
    (tmp_path / "a.whl").touch()
    with pytest.raises(ConfigError, match=r"a\.whl: expected a \.py, \.zip or \.egg"):
        add_to_path([f"{tmp_path}/a.whl"])


def test_options_that_are_lists_are_split_and_settings_read() -> None:
    given = SparkArguments(py_files=["a.py,b.zip", "c.py"], conf=["spark.cores.max=2"], jars=[","])
    assert given.options() == {
        "py_files": ("a.py", "b.zip", "c.py"),
        "conf": {"spark.cores.max": "2"},
    }
    with pytest.raises(ConfigError, match=r"--conf: 'x' is not key=value"):
        SparkArguments(conf=["x"]).options()
    with pytest.raises(ConfigError, match=r"--conf spark\.master: give it as --master"):
        SparkArguments(conf=["spark.master=local"]).options()
