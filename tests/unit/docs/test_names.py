"""Names of code in the documents, in docstrings and in comments are names of something.

A name counts if it stands in backticks and looks like one of ours: two capitalised words
(`TaskManager`), words joined by underscores (`read_until`), a module in its room (`tasks/manager`),
or something of such a module (`assignor/path._send`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = ("streamlet", "tests", "bench", "examples", "docs")
#: Where a module or a file in a room may lie.
HOMES = (ROOT, ROOT / "streamlet", ROOT / "tests", ROOT / "docs", ROOT / "streamlet/testing")
#: The page that says what names of other libraries are called here.
OTHERS = "coming-from.md"
#: Of Kafka, Kafka Streams, Java, Spark, Prometheus, Python and operators.
FOREIGN = frozenset(
    """
    ArrayList ByteArray ByteBuffer DeleteRecords ErrorHandlerContext GroupMetadataManager
    HADOOP_CONF_DIR HashMap HashSet InternalTopologyBuilder JoinGroupResponse ListSerde POD_NAME
    ProcessedKStream SessionWindowedSerde StreamingQueryListener StreamsUncaughtExceptionHandler
    TimeWindowedSerde disable_existing_loggers histogram_quantile
    """.split()  # noqa: SIM905
)
#: Made of two parts in the code: metrics, and variables of settings.
MADE = re.compile(r"streamlet_\w+|STREAMLET_\w+")
_LIKE_OURS = re.compile(
    r"_*([A-Z][a-z0-9]+([A-Z][a-z0-9]*)+|[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)+)_*"
)
_QUOTED = re.compile(r"(?<!`)(`{1,2})([^`\n]+)\1(?!`)")
_PLACE = re.compile(r"([a-z_]+(?:/\w+)+)((?:\.\w+)*)")
_WORD = re.compile(r"[A-Za-z_]\w*")
#: Alone in its line, or behind two blanks, as the formatter writes one.
_COMMENT = re.compile(r"(?:^ *|  )#.*", re.MULTILINE)


@cache
def known() -> frozenset[str]:
    """Every word of the code that stands neither in a docstring nor in a comment."""
    found: set[str] = set()
    for path in sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        if path == Path(__file__):
            continue
        text = path.read_text("utf-8")
        lines = text.splitlines()
        for node in docstrings(ast.parse(text)):
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                lines[number - 1] = ""
        found.update(_WORD.findall(_COMMENT.sub("", "\n".join(lines))), [path.stem])
    return frozenset(found)


def docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Texts that are statements of their own; no look into expressions, which have none."""
    for field in ("body", "orelse", "handlers", "finalbody", "cases"):
        body = getattr(tree, field, ())
        for one in body if isinstance(body, list) else ():
            if not isinstance(one, ast.Expr):
                yield from docstrings(one)
            elif isinstance(one.value, ast.Constant):
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
        if path.name != OTHERS:
            text = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.M | re.S)
            found.append((str(path.relative_to(ROOT)), text))
    for path in sorted((ROOT / "streamlet").rglob("*.py")):
        where, text = str(path.relative_to(ROOT)), path.read_text("utf-8")
        nodes = docstrings(ast.parse(text))
        found += [(f"{where}:{node.lineno}", str(node.value)) for node in nodes]
        found += [(where, comment[0]) for comment in _COMMENT.finditer(text)]
    return found


def test_names_in_documents_docstrings_and_comments_exist() -> None:
    there = known() | FOREIGN
    missing = {(name, where) for where, text in prose() for name in names(text)}
    assert sorted((name, where) for name, where in missing if name not in there) == []


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
