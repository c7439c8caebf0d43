"""``python -m tests.integration.spark.archive``: have Spark's JVMs in tests start quickly.

Counts words once on a broker, and keeps the classes that Java has loaded and checked by then in the
virtual environment, which the path of their jars is part of. Java leaves an archive of other jars
aside by itself. A second run finds it done; without it the tests run as well, and take longer.

Spark's Python processes start quickly, too, from a home of Spark's that lacks the zip of PySpark's
modules. Spark puts that zip first on the path of each process that it starts. A zip keeps no
bytecode: each of them compiled PySpark for 1.4 s of a processor. They find the same modules where
they are installed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

from streamlet.broker.jars import locked
from streamlet.broker.java import java_version

#: Of JVMs that end soon: half of their time would go into compiling what they hardly use.
_SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
#: Java lists hundreds of classes that it cannot keep, and warns where it cannot use an archive.
_QUIET = "-Xlog:cds*=off"
_LINES = [f"w{n % 37} all" for n in range(1_000)]
#: What Spark looks for in its home, where no shell for people is started.
_PARTS = ("bin", "jars", "sbin")


def spark_home() -> Path:
    """A home of Spark's without PySpark's zip, as links to the installed one; made if missing."""
    import pyspark

    package = Path(pyspark.__file__).parent
    made = _place(f"{pyspark.__version__} {package}", "home")
    with locked(made.with_suffix(".lock")):
        if not made.is_dir():
            aside = made.with_suffix(".part")
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir()
            for part in _PARTS:
                (aside / part).symlink_to(package / part)
            aside.rename(made)
    return made


def archive() -> Path:
    """The place of the archive for this environment's Spark on this machine's Java, made or not."""
    import pyspark

    from streamlet.spark.cluster.java import java_home

    java = java_home()
    return _place(f"{pyspark.__version__} {spark_home()} {java} {java_version(java)}", "jsa")


def _place(made_of: str, kind: str) -> Path:
    name = hashlib.sha256(made_of.encode()).hexdigest()[:12]
    return Path(sys.prefix) / f"spark-{name}.{kind}"


def short_lived() -> str:
    """Options of Java for programs without classes of Spark's."""
    return " ".join(_SHORT_LIVED)


def from_archive() -> str:
    """Options of Java for programs of Spark's, which start from the archive if there is one."""
    file = archive()
    kept = (f"-XX:SharedArchiveFile={file}", _QUIET) if file.is_file() else ()
    return " ".join((*_SHORT_LIVED, *kept))


def make() -> Path:
    """The archive, made if it is not there yet."""
    file = archive()
    with locked(file.with_suffix(".lock")):
        if not file.is_file():
            _record(file)
    return file


def _record(file: Path) -> None:
    """Run a query as most tests do; Java writes the archive when it ends."""
    from pyspark.sql import SparkSession

    import streamlet.spark
    from streamlet.testing import KafkaBroker
    from tests.integration.spark import words

    aside = file.with_suffix(".part")
    aside.unlink(missing_ok=True)
    os.environ["SPARK_HOME"] = str(spark_home())
    os.environ["SPARK_LAUNCHER_OPTS"] = short_lived()
    recording = (*_SHORT_LIVED, f"-XX:ArchiveClassesAtExit={aside}", _QUIET)
    os.environ["SPARK_SUBMIT_OPTS"] = " ".join(recording)
    with KafkaBroker() as broker, tempfile.TemporaryDirectory() as checkpoint:
        words.create_topics(broker.bootstrap_servers)
        words.produce(broker.bootstrap_servers, _LINES)
        words.main(broker.bootstrap_servers, checkpoint, trigger="available-now")
        streamlet.spark.stop(SparkSession.active())
    aside.rename(file)


if __name__ == "__main__":
    print(f"made {make()}")
