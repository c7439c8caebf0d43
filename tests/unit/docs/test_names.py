"""Names of code in the documents, in docstrings and in comments are names of something.

A name counts if it stands in backticks and looks like one of ours: two capitalised words
(`TaskManager`), words joined by underscores (`read_until`), a module in its room (`tasks/manager`),
something of such a module (`assignor/path._send`), or a member of a class of ours (`Batch.select`).
"""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from streamlet.garbage import without_gc

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = ("streamlet", "tests", "bench", "examples", "docs")
#: Where a module or a file in a room may lie.
HOMES = (ROOT, ROOT / "streamlet", ROOT / "tests", ROOT / "docs", ROOT / "streamlet/testing")
#: The pages that say what names of other libraries are called here.
OTHERS = ("coming-from.md", "coming-from-quix-faust.md", "coming-from-others.md")
#: Of Kafka, Kafka Streams, Java, Spark, Prometheus, Python and operators.
FOREIGN = frozenset(
    """
    ArrayList ByteArray ByteBuffer DeleteRecords ErrorHandlerContext GroupMetadataManager
    HADOOP_CONF_DIR HashMap HashSet InternalTopologyBuilder JoinGroupResponse ListSerde
    ProcessedKStream SessionWindowedSerde StreamingQueryListener StreamsUncaughtExceptionHandler
    TimeWindowedSerde avg_over_time disable_existing_loggers histogram_quantile max_over_time
    """.split()  # noqa: SIM905
)
#: Members of classes of Kafka Streams, where a class of ours has the same name.
FOREIGN_MEMBERS = frozenset(
    {("Record", "withValue"), ("Stores", "lruMap"), ("Topology", "describe")}
)
#: Bases from elsewhere without members that documents name.
BASES = frozenset(
    {"ABC", "Enum", "Generic", "IntEnum", "NamedTuple", "Protocol", "StrEnum", "TypedDict"}
)
#: Made of two parts in the code, or OpenTelemetry's: metrics, and variables of settings.
MADE = re.compile(r"streamlet_\w+|STREAMLET_\w+|OTEL_\w+")
_LIKE_OURS = re.compile(
    r"_*([A-Z][a-z0-9]+([A-Z][a-z0-9]*)+|[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)+)_*"
)
_QUOTED = re.compile(r"(?<!`)(`{1,2})([^`\n]+)\1(?!`)")
_PLACE = re.compile(r"([a-z_]+(?:/\w+)+)((?:\.\w+)*)")
_MEMBER = re.compile(r"(?<![\w.])(_*[A-Z]\w+)\.(\w+)(?![\w/])")
_WORD = re.compile(r"[A-Za-z_]\w*")


@cache
def trees() -> dict[Path, ast.Module]:
    paths = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    with without_gc():  # each collection would look through all trees so far
        return {p: ast.parse(p.read_text("utf-8")) for p in paths if p != Path(__file__)}


@cache
def known() -> frozenset[str]:
    """Every name in the code, and every word in its texts that is no docstring."""
    found: set[str] = set()
    for path, tree in trees().items():
        skipped = {id(node) for node in docstrings(tree)}
        for node in ast.walk(tree):
            match node:
                case ast.Constant(str(text)) if id(node) not in skipped:
                    found.update(_WORD.findall(text))
                case ast.Name(name) | ast.Attribute(attr=name) | ast.alias(name):
                    found.update(_WORD.findall(name))
                case ast.FunctionDef(name) | ast.ClassDef(name) | ast.AsyncFunctionDef(name):
                    found.add(name)
                case ast.arg(name) | ast.keyword(str(name)):
                    found.add(name)
                case _:
                    pass
        found.add(path.stem)
    return frozenset(found)


@cache
def classes() -> dict[str, tuple[set[str], set[str]]]:
    """Bases and own members of each class, by its name; those of classes of one name are united."""
    found: dict[str, tuple[set[str], set[str]]] = {}
    for tree in trees().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                bases, own = found.setdefault(node.name, (set(), set()))
                bases.update(
                    ast.unparse(one).partition("[")[0].rpartition(".")[2] for one in node.bases
                )
                own.update(stored(node))
    return found


def stored(of: ast.ClassDef) -> Iterator[str]:
    """The names that a class defines, also in its methods."""
    for node in ast.walk(of):
        match node:
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store()) | ast.Name(name, ctx=ast.Store()):
                yield name
                yield name.lstrip("_")  # attrs' argument of this name
            case _:
                pass


def has_member(of: str, name: str) -> bool:
    """False for a class of ours without this member; bases from elsewhere may have any."""
    if of not in classes():
        return of not in BASES
    bases, own = classes()[of]
    return name in own or any(has_member(base, name) for base in bases - {of})


def docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        body = getattr(node, "body", ())
        for one in body if isinstance(body, list) else ():
            if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant):
                yield one.value


def names(text: str) -> Iterator[str]:
    """The names in backticks, without what is in quotes and without settings of examples."""
    for _, quoted in _QUOTED.findall(text):
        bare = re.sub(r"\"[^\"]*\"|'[^']*'", "", quoted)
        for word in _WORD.findall(bare):
            if _LIKE_OURS.fullmatch(word) and not MADE.fullmatch(word):
                yield word


def places(text: str) -> Iterator[tuple[str, str]]:
    """Files and modules in backticks, with the name in them or nothing."""
    for _, quoted in _QUOTED.findall(text):
        found = _PLACE.fullmatch(quoted.partition("::")[0])
        if found and (ROOT / "streamlet" / found[1].partition("/")[0]).is_dir():
            yield found[1], found[2]


def exists(place: str, rest: str) -> bool:
    return any(
        path.exists()
        for home in HOMES
        for path in (home / f"{place}{rest}", home / place, home / f"{place}.py")
    )


@cache
def prose() -> list[tuple[str, str]]:
    """Documents, and the docstrings and comments of the package, with where they stand."""
    found = []
    for path in (*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CHANGELOG.md"):
        if path.name not in OTHERS:
            text = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.M | re.S)
            found.append((str(path.relative_to(ROOT)), text))
    for path in sorted((ROOT / "streamlet").rglob("*.py")):
        where = str(path.relative_to(ROOT))
        nodes = docstrings(trees()[path])
        found += [(f"{where}:{node.lineno}", str(node.value)) for node in nodes]
        with path.open("rb") as file:
            lines = file.readlines()
        if any(b"#" in line and b"`" in line for line in lines):  # else no comment has a name
            found += [
                (f"{where}:{token.start[0]}", token.string)
                for token in tokenize.tokenize(iter(lines).__next__)
                if token.type == tokenize.COMMENT
            ]
    return found


def test_names_in_documents_docstrings_and_comments_exist() -> None:
    there = known() | FOREIGN
    missing = {(name, where) for where, text in prose() for name in names(text)}
    assert sorted((name, where) for name, where in missing if name not in there) == []


def test_members_of_classes_in_documents_docstrings_and_comments_exist() -> None:
    found = {
        (*member, where)
        for where, text in prose()
        for _, quoted in _QUOTED.findall(text)
        for member in _MEMBER.findall(quoted)
        if member not in FOREIGN_MEMBERS
    }
    assert len(found) > 100
    assert [one for one in sorted(found) if not has_member(*one[:2])] == []


def test_no_foreign_name_is_listed_that_no_document_has() -> None:
    used = {name for _, text in prose() for name in names(text)}
    assert FOREIGN - used == set()


def test_modules_and_files_in_documents_and_docstrings_exist() -> None:
    found = {(*place, where) for where, text in prose() for place in places(text)}
    missing = [
        (place + rest, where)
        for place, rest, where in sorted(found)
        if not exists(place, rest)
        or (rest and not {*rest[1:].split(".")} <= known() | {"py", "md", "txt", "json"})
    ]
    assert missing == []
