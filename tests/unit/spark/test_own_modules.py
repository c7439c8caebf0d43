"""What travels to executors: the user's own modules, and nothing that is installed."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamlet.errors import ConfigError
from streamlet.spark.cluster import own_modules as tried
from streamlet.spark.cluster.own_modules import own_modules, package_files, zipped


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of the user's on Python's path."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / name.replace("__in__", "/").replace("__dot__", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_module_travels_with_what_it_imports_from_the_users_folders(folder: Path) -> None:
    write(
        folder,
        shop__dot__py="import json, msgspec\nfrom prices import of\nimport streamlet",
        prices__dot__py="def of():\n    import rates.daily",
        rates__in__daily__dot__py="",
        rates__in__data__dot__csv="1",
        unused__dot__py="",
    )
    assert own_modules("shop").keys() == {
        "shop.py",
        "prices.py",
        "rates/daily.py",
        "rates/data.csv",
    }


_BLOCKS = """
try:
    import one
except ImportError:
    import two
else:
    with open("x"):
        import three
finally:
    match 1:
        case 1:
            import four
while False:
    pass
else:
    class Shop:
        async def sell(self):
            for _ in ():
                from five.parts import x
"""


def test_an_import_counts_in_any_block(folder: Path) -> None:
    numbers = ("one", "two", "three", "four", "five")
    write(folder, shop__dot__py=_BLOCKS, **{f"{name}__dot__py": "" for name in numbers})
    assert own_modules("shop").keys() == {"shop.py", *(f"{name}.py" for name in numbers)}


def test_a_changed_file_is_read_again(folder: Path) -> None:
    write(folder, shop__dot__py="import json", prices__dot__py="")
    assert own_modules("shop").keys() == {"shop.py"}
    write(folder, shop__dot__py="import json, prices")
    assert own_modules("shop").keys() == {"shop.py", "prices.py"}


def test_a_package_travels_whole_without_caches_and_hidden_files(folder: Path) -> None:
    write(
        folder,
        trade__in____init____dot__py="",
        trade__in__apps__in__words__dot__py="from trade.parts import x",
        trade__in__parts__dot__py="x = 1",
        trade__in____pycache____in__parts__dot__pyc="",
        trade__in____dot__git__in__config="",
    )
    assert own_modules("trade.apps.words").keys() == {
        "trade/__init__.py",
        "trade/apps/words.py",
        "trade/parts.py",
    }


def test_equal_content_has_an_equal_name_and_a_change_another(folder: Path) -> None:
    write(folder, shop__dot__py="a = 1")
    (folder / "zips").mkdir()
    first = zipped(own_modules("shop"), "app", folder / "zips")
    content = first.read_bytes()
    assert zipped(own_modules("shop"), "app", folder / "zips") == first
    assert first.read_bytes() == content
    write(folder, shop__dot__py="a = 2")
    assert zipped(own_modules("shop"), "app", folder / "zips") != first


def test_a_module_out_of_a_zip_travels_no_further(folder: Path) -> None:
    with zipfile.ZipFile(folder / "given.zip", "w") as archive:
        archive.writestr("given.py", "")
    sys.path.insert(0, str(folder / "given.zip"))
    try:
        assert own_modules("given") == {}
    finally:
        sys.path.remove(str(folder / "given.zip"))


def test_a_package_that_is_too_large_is_refused_by_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, heavy__in____init____dot__py="", heavy__in__data__dot__bin="x" * 100)
    monkeypatch.setattr(tried, "MOST_BYTES", 50)
    with pytest.raises(ConfigError, match="heavy: 0 MiB are too much"):
        zipped(own_modules("heavy"), "app", folder)


def test_streamlet_itself_can_be_packed_whole(tmp_path: Path) -> None:
    path = zipped(package_files("streamlet"), "streamlet", tmp_path)
    with zipfile.ZipFile(path) as archive:
        assert {"streamlet/__init__.py", "streamlet/spark/log4j2.properties"} <= {
            *archive.namelist()
        }
