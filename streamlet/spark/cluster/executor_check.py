"""Looks from inside an executor's Python for what an application needs there.

This module travels as it is: it must run where nothing but Python and PySpark is, so it imports the
standard library only, and everything else while it looks.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

#: The modules of other packages that are loaded there, and the names those are installed by. Most
#: are compiled, and Python imports nothing compiled from a zip.
NEEDED = {
    "attrs": "attrs",
    "confluent_kafka": "confluent-kafka",
    "google.protobuf": "protobuf",
    "msgspec": "msgspec",
    "numpy": "numpy",
    "orjson": "orjson",
    "pandas": "pandas",
    "platformdirs": "platformdirs",
    "pyarrow": "pyarrow",
    "rich": "rich",
    "rocksdict": "rocksdict",
}

#: Our modules that run in an executor's Python, and in the workers of a local session.
LOADED = (
    "streamlet.app",
    "streamlet.kafka.client",
    "streamlet.spark.kafka.packed_reads",
    "streamlet.spark.kafka.python_kafka",
    "streamlet.spark.rows.aggregate_rows",
    "streamlet.spark.state.stage",
)

#: The ends of the names of files that Python, or ``lazy_names``, reads.
_SOURCES = (".py", ".pyi")


class Wanted(NamedTuple):
    """The driver's side of the check."""

    #: ``module:attribute`` of the application.
    reference: str
    #: The ``package_hash`` of streamlet.
    streamlet: str
    #: The ``topology_hash`` of the application.
    topology: str
    #: A file that the driver has written into the checkpoint, if that is a folder.
    seen: str | None


def answering(wanted: Wanted) -> Callable[[Any], Iterator[tuple[int, dict[str, Any]]]]:
    """The function of a Spark task that yields the task's id and what ``look`` finds."""
    reference, streamlet, topology, seen = wanted

    def answer(_: Any) -> Iterator[tuple[int, dict[str, Any]]]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        yield context.taskAttemptId(), look(reference, streamlet, topology, seen)

    return answer


def look(reference: str, streamlet: str, topology: str, seen: str | None) -> dict[str, Any]:
    """The first thing that this Python lacks, as a dict of findings; empty if it has all.

    The arguments are the fields of ``Wanted``.
    """
    lacking = sorted(name for module, name in NEEDED.items() if not _is_there(module))
    if lacking:
        return {"lacks": lacking}
    if package_hash("streamlet") != streamlet:
        return {"streamlet": "none" if find_spec("streamlet") is None else "other"}
    try:
        for module in LOADED:
            import_module(module)
    except Exception as error:  # also of a compiled module that does not fit this machine
        return {"broken": f"{type(error).__name__}: {error}"}
    try:
        here = topology_hash(application(reference))
    except Exception as error:  # the module's own code runs, which may raise anything
        return {"application": f"{type(error).__name__}: {error}"}
    if here != topology:
        return {"topology": here}
    if seen is not None and not os.path.isfile(seen):
        return {"checkpoint": os.path.dirname(seen)}
    return {}


def package_hash(name: str) -> str:
    """A hash of the Python files of a package, in a folder or a zip; empty if it is not there."""
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        return ""
    digest = hashlib.blake2b(digest_size=16)
    for inside, content in sorted(_sources(spec, name)):
        digest.update(inside.encode() + b"\0" + hashlib.blake2b(content).digest())
    return digest.hexdigest()


def _sources(spec: Any, name: str) -> Iterator[tuple[str, bytes]]:
    archive = getattr(spec.loader, "archive", None)
    if archive is not None:
        import zipfile

        with zipfile.ZipFile(archive) as files:
            for entry in files.namelist():
                if entry.startswith(f"{name}/") and entry.endswith(_SOURCES):
                    yield entry[len(name) + 1 :], files.read(entry)
        return
    for root in spec.submodule_search_locations:
        for folder, _, names in os.walk(root):
            for one in names:
                if one.endswith(_SOURCES):
                    path = os.path.join(folder, one)
                    with open(path, "rb") as file:
                        yield os.path.relpath(path, root).replace(os.sep, "/"), file.read()


def topology_hash(app: Any) -> str:
    """A hash of all subtopologies of an application."""
    parts = app.topology().subtopologies
    return ",".join(f"{part.id}:{part.hash.hex()}" for part in parts)


def application(reference: str) -> Any:
    """The application, imported here."""
    return import_module("streamlet.spark.plan.reference").resolve(reference)


def _is_there(module: str) -> bool:
    if module in sys.modules:
        return True
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False
