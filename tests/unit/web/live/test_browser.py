"""The live page in a real browser: hostile texts, narrow and dark, by keyboard, and its pictures.

STREAMLET_PICTURES names a folder for the pictures of the documentation (docs/pictures).
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from streamlet.clock import SystemClock
from streamlet.config import Settings
from streamlet.web.live.document import LiveDocument
from streamlet.web.live.reader import answer_json, document_json
from streamlet.web.live.server import LivePageServer
from tests.browser import chromium, complaints, hindrances, wait
from tests.browser import show as show_page
from tests.unit.web.live.made_up import HOSTILE, MadeUp

By = pytest.importorskip("selenium.webdriver.common.by").By
Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys

pytestmark = pytest.mark.xdist_group("browser")

#: A number of 64 bits that a number of JavaScript is not.
LARGE = 2**53 + 1


@attrs.define(eq=False)
class _Feed:
    """The documents of a made-up application, and the answers of its stores."""

    made: MadeUp
    page: LiveDocument = attrs.field(factory=LiveDocument)
    asked: list[tuple[str, dict[str, str]]] = attrs.field(factory=list)

    def newest(self) -> bytes | None:
        self.made.later()
        self.made.committed += 1_900
        self.made.end += 2_000
        self.made.output += 300
        facts = {"problem": None, "simulator": True}
        return answer_json(document_json(self.page.of(self.made.reading())), 100, 700, facts)

    def ask(self, path: str, parameters: dict[str, str]) -> dict[str, Any]:
        self.asked.append((path, parameters))
        raws = [base64.b64encode(text.encode()).decode() for text in HOSTILE]
        entries: list[dict[str, Any]] = [
            {"key": text, "value": {"text": text}, "headers": [[text, raw], ["no text", "/wA="]]}
            for text, raw in zip(HOSTILE, raws, strict=True)
        ]
        entries.append({"key": LARGE, "value": {"id": -LARGE}})
        return {"entries": entries, "cursor": None}


@attrs.define
class _Player:
    """A player that gives the scenario back as its page, the second time it is asked."""

    scenario: bytes = b""
    looks: int = 0

    def begin(self, scenario: bytes) -> int:
        self.scenario = scenario
        return 1

    def page(self, number: int) -> bytes | None:
        self.looks += 1
        return self.scenario if self.looks > 1 else None


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture
def shown(browser: Any) -> Iterator[Callable[..., _Feed]]:
    """Shows a made-up application, in a window of a width, light or dark."""
    servers: list[LivePageServer] = []

    def show(made: MadeUp, width: int = 1280, scheme: str = "light") -> _Feed:
        feed = _Feed(made)
        settings, clock = Settings.load({"http.port": 0}), SystemClock()
        server = LivePageServer(feed, feed.ask, _Player(), settings, clock)
        servers.append(server)
        height = 900 if width < 1000 else 1_900
        show_page(browser, server.url, width=width, height=height, scheme=scheme)
        wait(browser, lambda: "/s" in browser.find_element(By.ID, "totals").text)
        return feed

    yield show
    browser.get("about:blank")
    for server in servers:
        server.close()


def _busy(instances: int, **given: Any) -> MadeUp:
    made = MadeUp.of(instances, late=7, **given)
    made.learners = {"1_0": f"h{instances}"}
    return made


def test_hostile_texts_are_shown_as_texts(browser: Any, shown: Callable[..., _Feed]) -> None:
    names = HOSTILE[0], HOSTILE[1], HOSTILE[3]
    made = _busy(2, names=names, problem=HOSTILE[2], letters=frozenset({HOSTILE[4]}))
    feed = shown(made)
    browser.find_element(By.ID, "search-key").send_keys("..", Keys.ENTER)
    wait(browser, lambda: browser.find_elements(By.CSS_SELECTOR, "#found td"))
    texts = browser.execute_script(
        "return [...document.querySelectorAll('#found td bdi')].map((one) => one.textContent)"
    )
    assert texts[:-1] == [one for text in HOSTILE for one in (text, f"{text}:{text},no text:/wA=")]
    shown_text = browser.find_element(By.ID, "found").get_attribute("textContent")
    assert f'{LARGE}{{"id":-{LARGE}}}' in shown_text
    assert feed.asked[0][1] == {"key-format": "json"}
    errors = browser.find_element(By.ID, "error-list").get_attribute("textContent")
    assert errors == f"0_0 on h1-0: {HOSTILE[2]}"
    letters = browser.find_elements(By.CSS_SELECTOR, "#letters td")
    assert [one.get_attribute("textContent") for one in letters][:2] == [HOSTILE[4], "3"]
    labels = "return [...document.querySelectorAll('#graph title')].map((one) => one.textContent)"
    assert {*names} <= {*browser.execute_script(labels)}
    assert browser.title == "flights, streamlet"
    strange = "return document.querySelectorAll('main img, main script, main iframe').length"
    assert browser.execute_script(strange) == 0
    assert complaints(browser) == []


@pytest.mark.parametrize(
    ("instances", "width", "scheme"), [(1, 360, "light"), (8, 1280, "light"), (40, 360, "dark")]
)
def test_all_instances_are_shown_and_no_window_is_too_narrow(
    browser: Any,
    shown: Callable[..., _Feed],
    tmp_path: Path,
    *,
    instances: int,
    width: int,
    scheme: str,
) -> None:
    shown(_busy(instances, problem=HOSTILE[5] if width == 360 else None), width, scheme)
    size = "const all = document.documentElement; return [all.scrollWidth, all.clientWidth]"
    needed, there = browser.execute_script(size)
    assert width - 20 <= there <= width  # beside the scroll bar
    assert needed == there
    listed = browser.find_elements(By.CSS_SELECTOR, "#instance-list > li")
    assert [one.text.splitlines()[0] for one in listed] == sorted(
        f"h{number + 1}" for number in range(instances)
    )
    picture = Path(os.environ.get("STREAMLET_PICTURES", tmp_path)) / f"live-{width}-{scheme}.png"
    assert browser.save_screenshot(str(picture))


def test_a_choice_keeps_the_keyboard_while_the_page_goes_on(
    browser: Any, shown: Callable[..., _Feed], tmp_path: Path
) -> None:
    """The page also plays a scenario meanwhile."""
    shown(_busy(2))
    key = browser.find_element(By.ID, "search-key")
    key.send_keys("half a")
    before = browser.find_element(By.ID, "totals").text
    wait(browser, lambda: browser.find_element(By.ID, "move-table").text)
    key.send_keys(Keys.SHIFT, Keys.TAB)
    assert browser.switch_to.active_element.get_attribute("id") == "search-what"
    counted = "return document.querySelector('#events').children.length"
    assert browser.execute_script(counted) >= 1
    assert before
    assert key.get_attribute("value") == "half a"
    assert browser.switch_to.active_element.get_attribute("id") == "search-what"
    scenario = tmp_path / "<b>.json"
    scenario.write_text("<!doctype html><title>played</title>")
    browser.find_element(By.ID, "scenario").send_keys(str(scenario))
    browser.find_element(By.CSS_SELECTOR, "#simulation button").click()
    wait(browser, lambda: browser.find_elements(By.CSS_SELECTOR, "#simulation-said a"))
    way = browser.find_element(By.CSS_SELECTOR, "#simulation-said a")
    assert way.text == "Watch <b>.json"
    browser.get(way.get_attribute("href"))
    assert browser.title == "played"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (360, "dark")])
def test_the_page_is_accessible(
    browser: Any, shown: Callable[..., _Feed], width: int, scheme: str
) -> None:
    shown(_busy(3, problem="waits for a commit", stopped=frozenset({"0_1"})), width, scheme)
    browser.find_element(By.ID, "search-key").send_keys(Keys.ENTER)
    wait(browser, lambda: browser.find_elements(By.CSS_SELECTOR, "#found td"))
    assert hindrances(browser) == []
