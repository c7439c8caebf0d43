"""Fetches jars by their Maven coordinates, once; the only file that imports jgo.

They lie in the user's cache folder, a folder per name that appears whole or not at all: it is made
aside and renamed. A lock keeps two processes from fetching the same at once, and the process that
holds it sweeps what a killed one left behind.

A jar is code that will run, so each has the SHA-256 that the package carries (``sums``): when it
was fetched, and again each time before it is given to a JVM.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import attrs
from rich.progress import (
    DownloadColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)

from streamlet.broker.folders import writable
from streamlet.errors import BrokerError
from streamlet.own_files import user_folder
from streamlet.terminal import console

#: Called with the name and size in bytes of each file that begins to arrive.
FileStarted: TypeAlias = Callable[[str, int], None]
#: Called with each number of bytes that came in.
BytesCame: TypeAlias = Callable[[int], None]


@contextmanager
def arriving(what: str) -> Iterator[tuple[FileStarted, BytesCame]]:
    """Show that ``what`` arrives for as long as the block runs."""
    people = console(sys.stderr)
    if not people.is_terminal:
        people.print(f"fetching {what}, once ...")
        yield (lambda name, size: None), (lambda count: None)
        people.print(f"fetched {what}")
        return
    columns = (
        SpinnerColumn(),
        TextColumn("fetching {task.description}, once"),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeElapsedColumn(),
        TextColumn("[dim]{task.fields[file]}"),
    )
    with Progress(*columns, console=people, transient=True) as progress:
        row = progress.add_task(what, total=None, file="")
        yield (
            lambda name, size: progress.update(row, file=name),
            lambda count: progress.advance(row, count),
        )


#: A registry that answers badly once is asked again this often in all.
_ATTEMPTS = 3
#: Jars on their way at the same time.
_FETCHERS = 6
#: Hash sums of each set of jars, in the format of ``sha256sum``.
_SUMS = Path(__file__).parent / "sums"


def cache_folder() -> Path:
    """The folder of files that can be fetched or made again."""
    return writable(user_folder("cache"))


def jars(
    name: str, coordinates: Sequence[str], *, transitive: bool = True, sums: Path | None = None
) -> list[Path]:
    """All jars that the coordinates need to run, fetched when they are not there yet.

    Args:
        name: folder in the cache, with the version in it: another version is another name.
        coordinates: ``group:artifact:version``.
        transitive: False for these and nothing that they depend on.
        sums: file with the SHA-256 of each jar; the package's own for that name if None.

    Raises:
        BrokerError: they cannot be fetched, or one of them does not have its SHA-256.
    """
    folder, expected = _kept(
        name, lambda aside: _resolve(name, coordinates, aside, transitive), sums
    )
    return [folder / jar for jar in sorted(expected)]


@attrs.frozen
class Archive:
    """An archive of jars, ``.tar.gz``, by its Maven coordinate."""

    group: str
    artifact: str
    version: str
    classifier: str


def unpacked(name: str, archive: Archive, *, sums: Path | None = None) -> Path:
    """The folder of an archive's files, fetched when it is not there yet; as ``jars``.

    Raises:
        BrokerError: it cannot be fetched, or a file does not have its SHA-256.
    """
    return _kept(name, lambda aside: _unpack(name, archive, aside), sums)[0]


def _kept(
    name: str, resolve: Callable[[Path], None], sums: Path | None
) -> tuple[Path, dict[str, str]]:
    """The folder of a set of files, fetched when it is not there yet, and what it has to have."""
    expected = read_sums(sums or _SUMS / f"{name}.sha256")
    folder = cache_folder() / "jars" / name
    if not folder.is_dir():
        with locked(folder.with_name(f"{name}.lock")):
            if not folder.is_dir():
                _fetch(name, resolve, folder, expected)
    wrong = _wrong(folder, expected)
    if wrong is not None:
        raise BrokerError(
            f"jars of {name} were not run: {wrong}; delete the folder {folder} and start again, "
            "which fetches them again"
        )
    return folder, expected


def read_sums(file: Path) -> dict[str, str]:
    """The SHA-256 of each jar by its name, from a file in the format of ``sha256sum``."""
    lines = (line.split() for line in file.read_text().splitlines())
    return {name: digest for digest, name in lines}


def _wrong(folder: Path, expected: Mapping[str, str]) -> str | None:
    """The first jar in the folder that is missing or another one, and how it shows."""
    with ThreadPoolExecutor(_FETCHERS) as pool:
        found = pool.map(lambda jar: _sha256(folder / jar), expected)
        for (jar, digest), own in zip(expected.items(), found, strict=True):
            if own is None:
                return f"{jar} is missing or cannot be read"
            if own != digest:
                return f"{jar} has the SHA-256 {own}, expected {digest}"
    return None


def _sha256(file: Path) -> str | None:
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError:
        return None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file lock; it falls with the process, so that a killed one blocks no other."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(
    name: str, resolve: Callable[[Path], None], folder: Path, expected: Mapping[str, str]
) -> None:
    aside = folder.with_name(f"{name}.part")
    for attempt in range(1, _ATTEMPTS + 1):
        # Always from nothing: a jar cut short would be taken for one that is there.
        shutil.rmtree(aside, ignore_errors=True)
        try:
            resolve(aside)
        except BrokerError:
            raise
        except Exception as error:  # jgo has no error class of its own
            if attempt == _ATTEMPTS:
                raise BrokerError(f"cannot fetch the jars of {name}: {error}") from error
        else:
            break
    wrong = _wrong(aside / "jars", expected)
    if wrong is None:
        (aside / "jars").rename(folder)
    shutil.rmtree(aside, ignore_errors=True)
    if wrong is not None:
        raise BrokerError(
            f"jars of {name} were fetched and not kept: {wrong}; the package registry, or a proxy "
            "on the way to it, gave another file. Start again to fetch them again"
        )


def _resolve(name: str, coordinates: Sequence[str], aside: Path, transitive: bool) -> None:
    with _maven(name, aside) as (context, resolver):
        # Not jgo's environments: they sort jars by kind, and fetch a Java of their own to do so.
        wanted = [context.create_dependency(coordinate) for coordinate in coordinates]
        direct, further = resolver.resolve(wanted, transitive=transitive)
        chosen = direct + further if transitive else direct
        (aside / "jars").mkdir(parents=True)
        with ThreadPoolExecutor(_FETCHERS) as pool:
            for jar in pool.map(lambda needed: needed.artifact.resolve(), chosen):
                shutil.copy(jar, aside / "jars" / jar.name)


def _unpack(name: str, archive: Archive, aside: Path) -> None:
    with _maven(name, aside) as (context, _):
        component = context.project(archive.group, archive.artifact).at_version(archive.version)
        file = component.artifact(archive.classifier, "tar.gz").resolve()
        with tarfile.open(file) as opened:
            opened.extractall(aside / "jars", filter="data")


@contextmanager
def _maven(name: str, aside: Path) -> Iterator[tuple[Any, Any]]:
    """A context of jgo's and its resolver, while their progress is shown."""
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
        yield MavenContext(resolver=resolver, repo_cache=aside / "repository"), resolver
