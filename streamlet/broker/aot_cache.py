"""The cache from which Java starts a broker: classes, linked and with their profiles.

Java 25 and newer write one where a program ends, and start from it (JEP 514 and 515). With it a
broker serves after a third of the processor time. ``python -m streamlet.testing.broker_cache``
makes it; without it all works as well, later. A cache of other jars Java leaves aside by itself.
"""

from __future__ import annotations

from pathlib import Path

from streamlet.broker.jars import cache_folder
from streamlet.broker.java import java_version

#: The first Java that writes its cache in one run.
OLDEST_WITH_CACHE = 25


def cache_file(java: Path, jars: str) -> Path | None:
    """Path of the cache for this ``java``, which may not exist yet; None if it cannot have one.

    Args:
        java: the executable.
        jars: name of the set of jars, with their version in it.
    """
    version = java_version(java.parent.parent)
    if version < OLDEST_WITH_CACHE:
        return None
    return cache_folder() / "aot" / f"{jars}-java-{version}.aot"


def cache_options(java: Path, jars: str) -> tuple[str, ...]:
    """Java's options that have it start from the cache, if there is one."""
    cache = cache_file(java, jars)
    return () if cache is None or not cache.is_file() else (f"-XX:AOTCache={cache}",)
