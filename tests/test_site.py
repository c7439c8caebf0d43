"""The documentation builds without a warning, and every public name is in it."""

from __future__ import annotations

import http.server
import inspect
import os
import re
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import streamlet
import streamlet.assignor.values
import streamlet.consumer
import streamlet.errors
import streamlet.serdes
import streamlet.spark
import streamlet.testing
from tests.browser import chromium, complaints, show, wait

pytestmark = pytest.mark.xdist_group("browser")

ROOT = Path(__file__).resolve().parents[1]
#: What is searched for -> the page that has to be found first.
SEARCHED = {
    "dead letter": "operations/dead-letters.html",
    "exactly once": "howto/exactly-once.html",
    "partitioner": "howto/producing.html",
}
#: Puts a page's text into the page that is shown, and says which code and drawings are cut off.
CUT_OFF = """
const [page, done] = arguments;
history.replaceState(null, "", page);
fetch(page).then(answer => answer.text()).then(text => {
  const there = new DOMParser().parseFromString(text, "text/html").querySelector("article");
  const here = document.querySelector("article");
  here.replaceChildren(...there.childNodes);
  const width = document.documentElement.clientWidth;
  const parts = [...here.querySelectorAll("pre, pre > code, svg, img")];
  done(parts.filter(part => part.scrollWidth > part.clientWidth + 1
    || part.getBoundingClientRect().right > width + 1).map(part => part.outerHTML.slice(0, 200)));
});
"""


def public_names() -> Iterator[str]:
    """Names that users import, by where they are defined; also public members of classes."""
    rooms: dict[ModuleType, list[str]] = {
        room: list(room.__all__)
        for room in (streamlet, streamlet.consumer, streamlet.serdes, streamlet.spark)
    }
    rooms[streamlet.testing] = dir(streamlet.testing)
    for module in (streamlet.errors, streamlet.assignor.values):
        rooms[module] = [name for name, one in vars(module).items() if defined_in(module, one)]
    for room, names in rooms.items():
        for name in names:
            found = getattr(room, name)
            home = getattr(found, "__module__", room.__name__)
            path = found.__name__ if inspect.ismodule(found) else f"{home}.{name}"
            yield path if path.startswith("streamlet") else f"{room.__name__}.{name}"
            if inspect.isclass(found):
                yield from (f"{path}.{one}" for one in members(found))


def defined_in(module: ModuleType, one: object) -> bool:
    return inspect.isclass(one) and one.__module__ == module.__name__


def members(kind: type) -> Iterator[str]:
    """Public methods and properties that a class of ours defines itself."""
    for name, member in vars(kind).items():
        made = inspect.isfunction(member) or isinstance(member, property | classmethod)
        if made and not name.startswith("_") and name != "of":
            yield name


def documented(inventory: bytes) -> set[str]:
    """The names in the site's inventory, which has an entry for each anchor."""
    *_, packed = inventory.split(b"\n", 4)
    return {line.split(" ", 1)[0] for line in zlib.decompress(packed).decode().splitlines()}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site; ``STREAMLET_SITE`` is one that ``make docs`` has just built, without a warning."""
    if built_before := os.environ.get("STREAMLET_SITE"):
        return Path(built_before)
    site = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},  # as in the Makefile
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return site


def test_the_site_has_every_public_name_and_loads_nothing(site: Path) -> None:
    wanted = set(public_names())
    assert len(wanted) > 150
    assert wanted - documented((site / "objects.inv").read_bytes()) == set()
    loads = re.compile(r"<(?:script|link|img)[^>]* (?:src|href)=\"(?:https?:)?//[^\"]*")
    assert (site / "examples" / "kubernetes" / "words.yaml").is_file()  # a page links to it
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 25
    assert [found for page in pages for found in loads.findall(page.read_text("utf-8"))] == []


def test_each_block_of_code_is_shown_as_one(site: Path) -> None:
    pages = {page.relative_to(site): page.read_text() for page in site.rglob("*.html")}
    assert [page for page, text in pages.items() if re.search(r"(^|<p>) *```", text, re.M)] == []


@pytest.fixture(scope="module")
def served(site: Path) -> Iterator[str]:
    """The address of the site on a server of this machine."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site)) as one:
        thread = threading.Thread(target=one.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{one.server_port}"
        one.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1280, "light")])
def test_no_code_is_cut_off(browser: Any, site: Path, served: str, width: int, scheme: str) -> None:
    for first in ("index.html", "reference/streams.html"):
        show(browser, f"{served}/{first}", width=width, height=900, scheme=scheme)
        assert browser.execute_script(
            "return document.documentElement.scrollWidth <= window.innerWidth"
        ), first
    assert complaints(browser) == []
    cut = {
        page: found
        for page in sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
        if page != "404.html"
        if (found := browser.execute_async_script(CUT_OFF, f"{served}/{page}"))
    }
    assert cut == {}


@pytest.mark.parametrize("words", SEARCHED)
def test_the_search_finds_the_page_that_is_meant(browser: Any, served: str, words: str) -> None:
    show(browser, f"{served}/index.html?q={words.replace(' ', '+')}", width=1280, height=900)
    first = ".md-search-result__item a"
    wait(browser, lambda: browser.find_elements("css selector", first))
    found = browser.find_element("css selector", first).get_attribute("href")
    assert found.removeprefix(f"{served}/").partition("?")[0] == SEARCHED[words]
    assert complaints(browser) == []
