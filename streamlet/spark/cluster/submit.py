"""Hands an application to ``spark-submit``, for a driver that runs inside the cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs

from streamlet.errors import ConfigError
from streamlet.spark.cluster.java import java_home
from streamlet.spark.cluster.own_modules import own_modules, package_files, zipped

_DRIVER = "from streamlet.__main__ import main\n\nmain()\n"


@attrs.frozen
class Submission:
    """The options of ``spark-submit``, and those of ``streamlet run`` in the driver."""

    master: str | None = None
    name: str | None = None
    conf: Mapping[str, str] = attrs.field(factory=dict)
    py_files: Sequence[str] = ()
    archives: Sequence[str] = ()
    files: Sequence[str] = ()
    packages: Sequence[str] = ()
    jars: Sequence[str] = ()
    #: Options of the run, as they are written.
    run: Sequence[str] = ()


def add_to_path(py_files: Sequence[str]) -> None:
    """Let this process import from files that executors get; those at URLs it leaves to Spark.

    Raises:
        ConfigError: one does not exist, or is no Python file or zip.
    """
    problems = []
    for one in (Path(text) for text in py_files if "://" not in text):
        if not one.is_file():
            problems.append(f"--py-files {one}: no such file")
        elif one.suffix not in (".py", ".zip", ".egg"):
            problems.append(f"--py-files {one}: expected a .py, .zip or .egg")
        else:
            entry = str((one.parent if one.suffix == ".py" else one).absolute())
            sys.path[:] = [entry, *(other for other in sys.path if other != entry)]
    if problems:
        raise ConfigError(problems)


def submit(reference: str, wanted: Submission, settings: Sequence[str]) -> int:
    """Run ``spark-submit --deploy-mode cluster`` to its end, and return its exit code.

    The application's modules and streamlet travel as zips, settings as a file: a command line
    shows passwords to everyone on the machine.

    Args:
        reference: ``module:attribute`` of the application.
        wanted: the options.
        settings: as ``key=value``.

    Raises:
        ConfigError: the cluster cannot take such a driver.
    """
    check(wanted)
    import pyspark

    with TemporaryDirectory(prefix="streamlet-") as name:
        folder = Path(name)
        own = own_modules(reference.partition(":")[0])
        zips = [zipped(own, "streamlet-app", folder)] if own else []
        zips.append(zipped(package_files("streamlet"), "streamlet", folder))
        file = folder / "streamlet.properties"
        file.touch(mode=0o600)
        file.write_text(properties(settings))
        driver = folder / "streamlet_driver.py"
        driver.write_text(_DRIVER)
        program = Path(pyspark.__file__).parent / "bin" / "spark-submit"
        words = [str(program), *arguments(reference, wanted, zips, file, driver)]
        environment = os.environ | {"JAVA_HOME": str(java_home())}
        return subprocess.run(words, env=environment, check=False).returncode


def check(wanted: Submission) -> None:
    """Refuse a driver that would not start, or that would lose its state.

    Raises:
        ConfigError: naming why.
    """
    master = wanted.master or "local[*]"
    if master.startswith(("local", "spark://")):
        raise ConfigError(
            [
                f"--deploy-mode cluster: {master} takes no driver in Python; start the command on "
                "a machine of the cluster instead, with --deploy-mode client"
            ]
        )
    checkpoint = next((one for one in wanted.run if one.startswith("--checkpoint=")), "")
    if "://" not in checkpoint:
        raise ConfigError(
            [
                "--deploy-mode cluster: the driver's folders go with its container; give "
                "--checkpoint a URL, as s3a://… or hdfs://…"
            ]
        )


def properties(settings: Sequence[str]) -> str:
    """Settings as the lines of a properties file; the last of equal keys counts."""
    found = dict(setting.split("=", 1) for setting in settings)
    return "".join(f"{key}={value}\n" for key, value in found.items())


def arguments(
    reference: str, wanted: Submission, zips: Sequence[Path], settings: Path, driver: Path
) -> list[str]:
    """The words behind ``spark-submit``."""
    words = ["--master", wanted.master or "", "--deploy-mode", "cluster"]
    words += ["--name", wanted.name or reference]
    lists = {
        "--py-files": [*map(str, zips), *wanted.py_files],
        "--archives": wanted.archives,
        "--files": [str(settings), *wanted.files],
        "--packages": wanted.packages,
        "--jars": wanted.jars,
    }
    for option, many in lists.items():
        words += [option, ",".join(many)] if many else []
    for key, value in wanted.conf.items():
        words += ["--conf", f"{key}={value}"]
    run = ["run", reference, "--engine=spark", f"--config={settings.name}", *wanted.run]
    return [*words, str(driver), *run]
