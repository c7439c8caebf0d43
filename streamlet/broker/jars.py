"""Fetches jars by their Maven coordinates, once; the only file that imports jgo.

They lie in the user's cache folder, a folder per name that appears whole or not at all: it is made
aside and renamed. A lock keeps two processes from fetching the same at once, and the process that
holds it sweeps what a killed one left behind.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from platformdirs import user_cache_path

from streamlet.broker.folders import writable
from streamlet.broker.progress import arriving
from streamlet.errors import BrokerError

#: A registry that answers badly once is asked again this often in all.
_ATTEMPTS = 3
#: Jars on their way at the same time.
_FETCHERS = 6


def cache_folder() -> Path:
    """The folder of files that can be fetched or made again."""
    return writable(Path(user_cache_path("streamlet")))


def jars(name: str, coordinates: Sequence[str], *, transitive: bool = True) -> list[Path]:
    """All jars that the coordinates need to run, fetched when they are not there yet.

    Args:
        name: folder in the cache, with the version in it: another version is another name.
        coordinates: ``group:artifact:version``.
        transitive: False for these and nothing that they depend on.

    Raises:
        BrokerError: they cannot be fetched.
    """
    folder = cache_folder() / "jars" / name
    if not folder.is_dir():
        with locked(folder.with_name(f"{name}.lock")):
            if not folder.is_dir():
                _fetch(name, coordinates, folder, transitive)
    return sorted(folder.glob("*.jar"))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file lock; it falls with the process, so that a killed one blocks no other."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(name: str, coordinates: Sequence[str], folder: Path, transitive: bool) -> None:
    aside = folder.with_name(f"{name}.part")
    for attempt in range(1, _ATTEMPTS + 1):
        # Always from nothing: a jar cut short would be taken for one that is there.
        shutil.rmtree(aside, ignore_errors=True)
        try:
            _resolve(name, coordinates, aside, transitive)
        except BrokerError:
            raise
        except Exception as error:  # jgo has no error class of its own
            if attempt == _ATTEMPTS:
                raise BrokerError(f"cannot fetch the jars of {name}: {error}") from error
        else:
            break
    (aside / "jars").rename(folder)
    shutil.rmtree(aside, ignore_errors=True)


def _resolve(name: str, coordinates: Sequence[str], aside: Path, transitive: bool) -> None:
    try:
        from jgo.maven import MavenContext, PythonResolver
    except ImportError as error:
        raise BrokerError(
            f"{name} must be fetched and the package jgo is not installed; "
            "run: pip install 'streamlet[broker]'"
        ) from error
    with arriving(name) as (file_started, bytes_came):

        @contextmanager
        def one_file(file: str, size: int) -> Iterator[Callable[[int], None]]:
            file_started(file, size)
            yield bytes_came

        resolver = PythonResolver(progress_callback=one_file)
        context = MavenContext(resolver=resolver, repo_cache=aside / "repository")
        # Not jgo's environments: they sort jars by kind, and fetch a Java of their own to do so.
        wanted = [context.create_dependency(coordinate) for coordinate in coordinates]
        direct, further = resolver.resolve(wanted, transitive=transitive)
        chosen = direct + further if transitive else direct
        (aside / "jars").mkdir(parents=True)
        with ThreadPoolExecutor(_FETCHERS) as pool:
            for jar in pool.map(lambda needed: needed.artifact.resolve(), chosen):
                shutil.copy(jar, aside / "jars" / jar.name)
