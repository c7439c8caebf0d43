"""Jars run only if they have the SHA-256 that the package carries."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest

import streamlet.broker.jars
from streamlet.broker.jars import Archive, jars, read_sums, unpacked
from streamlet.broker.storage import JARS
from streamlet.errors import BrokerError

NAME, COORDINATES = "thing-1.2.3", ["no.such:thing:1.2.3"]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "streamlet" / "jars"


@pytest.fixture
def sums(tmp_path: Path) -> Path:
    file = tmp_path / "sums"
    digests = {f"{letter}.jar": hashlib.sha256(letter.encode()).hexdigest() for letter in "ab"}
    file.write_text("".join(f"{digest}  {name}\n" for name, digest in digests.items()))
    return file


def lay(folder: Path, **texts: str) -> Path:
    folder.mkdir(parents=True)
    for name, text in texts.items():
        (folder / f"{name}.jar").write_text(text)
    return folder


def test_jars_that_are_there_are_not_fetched(cache: Path, sums: Path) -> None:
    folder = lay(cache / NAME, b="b", a="a")
    assert jars(NAME, COORDINATES, sums=sums) == [folder / "a.jar", folder / "b.jar"]


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        pytest.param({"a": "a", "b": "other"}, "b.jar has the SHA-256 ", id="another"),
        pytest.param({"a": "", "b": "b"}, "a.jar has the SHA-256 ", id="cut short"),
        pytest.param({"a": "a"}, "b.jar is missing", id="missing"),
    ],
)
def test_another_jar_is_not_run_and_named_with_the_way_out(
    cache: Path, sums: Path, texts: dict[str, str], said: str
) -> None:
    folder = lay(cache / NAME, **texts)
    with pytest.raises(BrokerError, match=said) as refused:
        jars(NAME, COORDINATES, sums=sums)
    assert f"delete the folder {folder} and start again" in str(refused.value)


def test_a_jar_that_is_not_expected_is_not_run(cache: Path, sums: Path) -> None:
    lay(cache / NAME, a="a", b="b", c="c")
    assert [jar.name for jar in jars(NAME, COORDINATES, sums=sums)] == ["a.jar", "b.jar"]


def test_another_jar_that_was_fetched_is_not_kept(
    cache: Path, sums: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"a": "a", "b": "forged"}

    def fetch(name: str, coordinates: Sequence[str], aside: Path, transitive: bool) -> None:
        lay(aside / "jars", **given)

    monkeypatch.setattr(streamlet.broker.jars, "_resolve", fetch)
    with pytest.raises(BrokerError, match=r"fetched and not kept: b\.jar has the SHA-256"):
        jars(NAME, COORDINATES, sums=sums)
    assert [path.name for path in cache.iterdir()] == [f"{NAME}.lock"]
    given["b"] = "b"
    assert len(jars(NAME, COORDINATES, sums=sums)) == 2


def test_the_package_knows_each_jar_that_it_fetches() -> None:
    known = read_sums(Path(streamlet.broker.jars.__file__).parent / "sums" / f"{JARS}.sha256")
    assert all(jar.endswith(".jar") and len(digest) == 64 for jar, digest in known.items())
    assert any("kafka-clients" in jar for jar in known)


def test_a_file_of_an_archive_that_is_another_one_is_not_run(cache: Path, sums: Path) -> None:
    folder, archive = lay(cache / NAME, a="a", b="b"), Archive("no.such", "thing", "1.2.3", "all")
    assert unpacked(NAME, archive, sums=sums) == folder
    (folder / "b.jar").write_text("forged")
    with pytest.raises(BrokerError, match=r"b\.jar has the SHA-256"):
        unpacked(NAME, archive, sums=sums)
