"""What is done for Spark before there is a Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import examples.wordcount
import streamlet as sl
from streamlet.errors import AppNotFoundError
from streamlet.spark.java import has_vector_module, wrapped
from streamlet.spark.reference import reference_of, resolve

FLAG = "--add-modules=jdk.incubator.vector"


def test_the_wrapped_java_gets_every_argument_but_the_one_flag(tmp_path: Path) -> None:
    java = tmp_path / "a java"
    java.write_text('#!/bin/sh\nfor one do echo "<$one>"; done\n')
    java.chmod(0o755)
    home = wrapped(java, tmp_path / "homes")
    command = [home / "bin" / "java", "-cp", "a b", FLAG, "", "Main", "--x"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert out.splitlines() == ["<-cp>", "<a b>", "<>", "<Main>", "<--x>"]
    assert wrapped(java, tmp_path / "homes") == home


def test_a_java_says_in_its_release_file_whether_it_has_the_module(tmp_path: Path) -> None:
    assert not has_vector_module(tmp_path)
    (tmp_path / "release").write_text('MODULES="java.base jdk.incubator.vector"\n')
    assert has_vector_module(tmp_path)


def test_an_app_is_found_by_the_shortest_name_it_can_be_imported_by() -> None:
    reference = reference_of(examples.wordcount.app)
    assert reference == "examples.wordcount:app"
    assert resolve(reference) is examples.wordcount.app


def test_an_app_that_no_module_holds_is_refused() -> None:
    with pytest.raises(AppNotFoundError, match="no variable of a module"):
        reference_of(sl.App("loose"))


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("__main__:app", "__main__"),
        ("nothing", "expected module:attribute"),
        ("examples.wordcount:counting", "cannot be imported here"),
        ("examples.nowhere:app", "cannot be imported here"),
        ("examples.wordcount:words", "not an App"),
    ],
)
def test_a_reference_that_leads_nowhere_says_why(reference: str, message: str) -> None:
    with pytest.raises(AppNotFoundError, match=message):
        resolve(reference)


def test_without_pyspark_everything_imports_and_a_session_names_the_extra() -> None:
    """In a process of its own, where importing PySpark, Arrow or pandas fails."""
    code = """
import sys
sys.modules.update(dict.fromkeys(["pyspark", "pyarrow", "pandas", "numpy"]))
import streamlet.spark
from streamlet.errors import StreamletError
try:
    streamlet.spark.session()
except StreamletError as error:
    print(error)
"""
    command = [sys.executable, "-c", code]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "pip install 'streamlet[spark]'" in out
