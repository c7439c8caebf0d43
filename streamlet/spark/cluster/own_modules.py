"""Finds the modules of the user's own that an application needs, and packs them for executors.

An executor has Python and what was installed for it, but not the folder that an application lies
in. So a zip is made of the application's top-level module or package, and of all modules imported
there that lie outside the installed ones. Equal content has an equal name.
"""

from __future__ import annotations

import ast
import hashlib
import site
import sys
import sysconfig
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from streamlet.errors import ConfigError

#: Spark sends the zip to every executor; a package of this size has data in it.
MOST_BYTES = 256 * 1024 * 1024

_OLDEST_TIME = (1980, 1, 1, 0, 0, 0)


def own_modules(module: str) -> dict[str, Path]:
    """The files of a module's top-level package and of what it imports, by their names in a zip.

    Of imported modules only those count that are not installed in this Python. A module that comes
    out of a zip, or has none but compiled files, has no files here.
    """
    top = module.partition(".")[0]
    found: dict[str, Path] = {}
    seen, waiting = {"streamlet"}, [top]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name == top or not any(map(installed, _places(name))):
            files = package_files(name)
            found |= files
            waiting += {one for file in files.values() for one in _imported(file)} - seen
    return found


def package_files(name: str) -> dict[str, Path]:
    """The files of a top-level module or package, by their names in a zip."""
    found = {}
    for place in _places(name):
        if place.suffix == ".py":
            found[place.name] = place
        for file in sorted(place.rglob("*")) if place.is_dir() else ():
            inside = file.relative_to(place)
            hidden = any(part == "__pycache__" or part.startswith(".") for part in inside.parts)
            if file.is_file() and not hidden:
                found[f"{name}/{inside.as_posix()}"] = file
    return found


def folders_of(names: Iterable[str]) -> list[Path]:
    """The folders, or zips, that these top-level modules are imported from, without repeats."""
    found = [place.parent for name in names for place in _places(name, everywhere=True)]
    return list(dict.fromkeys(found))


def installed(place: Path) -> bool:
    """True if a folder or file is among what is installed in this Python."""
    return any(place.is_relative_to(folder) for folder in _installed_folders())


def _places(name: str, *, everywhere: bool = False) -> list[Path]:
    """The folders of a top-level package, or the file of a module; also in zips, if asked for."""
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        return []
    if spec is None or (not spec.has_location and spec.submodule_search_locations is None):
        return []
    found = [Path(place) for place in spec.submodule_search_locations or [spec.origin or ""]]
    return [place for place in found if everywhere or place.exists()]


def zipped(files: Mapping[str, Path], prefix: str, folder: Path) -> Path:
    """A zip of the files in ``folder``, named by ``prefix`` and the hash of its content.

    Raises:
        ConfigError: they are too large to be sent to every executor.
    """
    size = sum(file.stat().st_size for file in files.values())
    if size > MOST_BYTES:
        tops = sorted({name.partition("/")[0] for name in files})
        raise ConfigError(
            [
                f"{', '.join(tops)}: {size >> 20} MiB are too much to send to every executor: keep "
                "data out of the package, or install it there and leave its folder off Python's "
                "path"
            ]
        )
    contents = {name: file.read_bytes() for name, file in sorted(files.items())}
    digest = hashlib.blake2b(digest_size=8)
    for name, content in contents.items():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    path = folder / f"{prefix}-{digest.hexdigest()}.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in contents.items():
            info = zipfile.ZipInfo(name, _OLDEST_TIME)
            archive.writestr(info, content, zipfile.ZIP_DEFLATED)
    return path


def _imported(file: Path) -> frozenset[str]:
    """The top-level names that a Python file imports."""
    if file.suffix != ".py":
        return frozenset()
    status = file.stat()
    return _parsed(file, status.st_mtime_ns, status.st_size)


@cache
def _parsed(file: Path, changed_ns: int, size: int) -> frozenset[str]:
    """The names that a file imports, read once as long as it is not changed.

    Each query asks for them, and to parse a package of some hundred files takes a second.
    """
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return frozenset()  # a template, or of another Python
    names: set[str] = set()
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.partition(".")[0])
    return frozenset(names)


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """All statements at any depth, and the clauses between them; no expressions."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for block in ("body", "orelse", "handlers", "finalbody", "cases"):
            waiting += getattr(node, block, ())


def _installed_folders() -> set[Path]:
    kinds = ("stdlib", "platstdlib", "purelib", "platlib")
    texts = {sysconfig.get_paths()[kind] for kind in kinds}
    texts |= {*site.getsitepackages(), site.getusersitepackages()}
    base = sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix})
    return {Path(text) for text in texts | {base}}
