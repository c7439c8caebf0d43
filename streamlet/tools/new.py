"""``streamlet new``: the files of a small application to begin with."""

from __future__ import annotations

import json
import keyword
import re
import shlex
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from streamlet.errors import ConfigError
from streamlet.tools.command import Common, command
from streamlet.user_code import shown

#: Names that are also names in Kubernetes and, with ``_`` for ``-``, of Python modules.
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LONGEST = 40
#: Words that YAML takes for true, false or nothing.
_YAML = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null"})

#: Template -> where it goes in the new folder.
_FILES = {
    "README.md": "README.md",
    "app.py": "{{module}}.py",
    "test_app.py": "test_{{module}}.py",
    "produce.py": "produce.py",
    "Makefile": "Makefile",
    "requirements.txt": "requirements.txt",
    "requirements-dev.txt": "requirements-dev.txt",
    "Dockerfile": "Dockerfile",
    "compose.yaml": "compose.yaml",
    "kubernetes.yaml": "kubernetes.yaml",
    "gitignore": ".gitignore",
    "dockerignore": ".dockerignore",
}


#: How the address of a folder begins.
_FOLDER = "file:"


@command("new")
def new(
    common: Common,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Of the application; and of its folder.")
    ],
    folder: Annotated[
        Path | None,
        typer.Option(help="Where the files go; new or empty.", show_default="a folder NAME here"),
    ] = None,
) -> None:
    """Write a small application that runs: program, tests, Makefile, image, Kubernetes.

    `make demo` in its folder starts a broker and shows first results, `make test` tests it.
    """
    place = Path(name) if folder is None else folder
    problems = [*_name_problems(name), *_folder_problems(place)]
    if problems:
        raise ConfigError(problems)
    words = {"name": name, "module": _module(name), "requirement": requirement()}
    written = [
        _write(place / _filled(file, words), source, words) for source, file in _FILES.items()
    ]
    common.output.answer(
        {"name": name, "folder": str(place), "files": [path.name for path in written]},
        f"wrote {len(written)} files to {place}/; next:\n"
        f"  cd {shlex.quote(str(place))}\n"
        "  make demo    # a broker, two lines, their words counted\n"
        "  make test    # the tests, one of them on a real broker",
    )
    if words["requirement"].startswith(f"streamlet @ {_FOLDER}"):
        common.output.note(
            f"requirements.txt names a folder of this machine, {words['requirement']}: an image "
            "cannot read it; before docker build put a release or a wheel in its place"
        )


def requirement() -> str:
    """The line of a requirements file for this streamlet: its release, or where it was built from.

    A streamlet that was installed from a folder or a repository names that, as pip does.
    """
    try:
        installed = distribution("streamlet")
    except PackageNotFoundError:
        return "streamlet"
    origin = installed.read_text("direct_url.json")
    if origin is None:
        return f"streamlet>={installed.version}"
    found = json.loads(origin)
    vcs = found.get("vcs_info")
    if vcs is None:
        return f"streamlet @ {found['url']}"
    return f"streamlet @ {vcs['vcs']}+{found['url']}@{vcs['commit_id']}"


def _name_problems(name: str) -> list[str]:
    """The reasons against a name; none if it can be taken."""
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        return [
            f"{shown(name)} is no name for a project: it takes small letters, digits and single "
            "hyphens between them, begins with a letter and has at most "
            f"{_LONGEST} characters, since it names a Python module and objects of Kubernetes too"
        ]
    module = _module(name)
    if keyword.iskeyword(module) or name in _YAML:
        return [f"{name} is a word of Python or of YAML, in which files of the project name it"]
    if module in {"produce", "streamlet", "conftest"} or _is_taken(module):
        return [f"{name}: a module {module} is there already in Python; take another name"]
    return []


def _is_taken(module: str) -> bool:
    """True if Python has a module of this name, or could have no other one beside it."""
    return module in sys.stdlib_module_names or find_spec(module) is not None


def _folder_problems(folder: Path) -> list[str]:
    """The reasons against a folder; none if it is new or empty."""
    if folder.is_dir():
        return (
            [f"{folder} is not empty; --folder names another place"]
            if any(folder.iterdir())
            else []
        )
    return [f"{folder} is a file; --folder names another place"] if folder.exists() else []


def _module(name: str) -> str:
    """The Python module of an application."""
    return name.replace("-", "_")


def _write(path: Path, source: str, words: dict[str, str]) -> Path:
    """Write one file from its template."""
    template = files("streamlet.tools") / "project" / f"{source}.template"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_filled(template.read_text("utf-8"), words), "utf-8")
    except OSError as error:
        raise ConfigError([f"{path} cannot be written: {error.strerror}"]) from error
    return path


def _filled(text: str, words: dict[str, str]) -> str:
    """A template with the words for ``{{name}}`` and so on."""
    for word, meaning in words.items():
        text = text.replace(f"{{{{{word}}}}}", meaning)
    return text
