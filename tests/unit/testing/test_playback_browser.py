"""The page that plays a simulation in a real browser, from a file: keys, widths, hostile names.

STREAMLET_PICTURES names a folder for the pictures of the documentation (docs/pictures).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streamlet.testing.simulation import playback_page
from tests.browser import chromium, complaints, hindrances, show, wait
from tests.unit.testing.test_playback import HANDOVER, hostile, played
from tests.unit.web.live.made_up import HOSTILE

By = pytest.importorskip("selenium.webdriver.common.by").By
Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture
def shown(browser: Any, tmp_path: Path) -> Callable[..., int]:
    """Shows a played scenario in a window of a width; the number of its moments."""

    def show_scenario(scenario: dict[str, Any], width: int, scheme: str = "light") -> int:
        playback = played(scenario)
        file = tmp_path / "page.html"
        file.write_bytes(playback_page(playback))
        height = 800 if width < 1000 else 1_400
        show(browser, file.as_uri(), width=width, height=height, scheme=scheme)
        return len(playback["moments"])

    return show_scenario


def text(browser: Any, place: str) -> str:
    return str(browser.find_element(By.ID, place).get_attribute("textContent"))


def fits(browser: Any, width: int) -> None:
    """Check that nothing of the page is wider than the window, beside its scroll bar."""
    size = "const all = document.documentElement; return [all.scrollWidth, all.clientWidth]"
    needed, there = browser.execute_script(size)
    assert width - 20 <= there <= width
    assert needed == there


def test_keys_buttons_and_the_slider_go_from_moment_to_moment(
    browser: Any, shown: Callable[..., int]
) -> None:
    count = shown(HANDOVER, 1280)

    def at() -> int:
        return int(text(browser, "where").split(", moment ")[1].split(" of ")[0])

    def press(*keys: str) -> int:
        browser.switch_to.active_element.send_keys(*keys)
        return at()

    assert at() == 1
    assert press(Keys.ARROW_LEFT) == 1
    assert press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT) == 3
    assert press(Keys.END, Keys.ARROW_RIGHT) == count
    assert "expected 7, found" in text(browser, "news")
    assert press(Keys.ARROW_LEFT) == count - 1
    assert press(Keys.HOME) == 1
    slider = browser.find_element(By.ID, "slider")
    slider.send_keys(Keys.ARROW_RIGHT)
    assert at() == 2
    assert slider.get_attribute("value") == "1"
    browser.find_element(By.ID, "next").click()
    assert at() == 3
    browser.find_element(By.CSS_SELECTOR, "#course li:last-child button").click()
    assert at() == count
    press(Keys.HOME)
    browser.execute_script("document.activeElement.blur()")
    press(Keys.SPACE)
    assert text(browser, "play") == "Pause"
    wait(browser, lambda: at() >= 3)
    press(Keys.SPACE)
    assert text(browser, "play") == "Play"
    assert complaints(browser) == []


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1280, "light")])
def test_a_hand_over_is_shown_in_windows_of_any_width(
    browser: Any, shown: Callable[..., int], tmp_path: Path, width: int, scheme: str
) -> None:
    count = shown(HANDOVER, width, scheme)
    roles = set()
    for _ in range(count):
        fits(browser, width)
        tasks = browser.find_elements(By.CSS_SELECTOR, "#instance-list .task")
        roles |= {one.get_attribute("class").split()[1] for one in tasks}
        if "pending" in roles and "released" not in roles:
            folder = Path(os.environ.get("STREAMLET_PICTURES", tmp_path))
            assert browser.save_screenshot(str(folder / f"playback-{width}-{scheme}.png"))
        browser.find_element(By.TAG_NAME, "body").send_keys(Keys.ARROW_RIGHT)
    assert {"active", "learner", "pending", "released"} <= roles
    assert complaints(browser) == []


def test_the_page_is_accessible(browser: Any, shown: Callable[..., int]) -> None:
    for width, scheme in ((360, "dark"), (1280, "light")):
        shown(HANDOVER, width, scheme)
        browser.find_element(By.TAG_NAME, "body").send_keys(Keys.END)
        assert "expected 7, found" in text(browser, "news")
        assert hindrances(browser) == []


def test_hostile_names_are_shown_as_texts(browser: Any, shown: Callable[..., int]) -> None:
    shown(hostile(), 360)
    fits(browser, 360)
    heads = "[...document.querySelectorAll('#instance-list h3 bdi')]"
    texts = browser.execute_script(f"return {heads}.map((one) => one.textContent)")
    assert texts == [HOSTILE[0], HOSTILE[3], "__proto__"]
    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.END)
    fits(browser, 360)
    assert text(browser, "title") == HOSTILE[1]
    assert "__proto__" in text(browser, "plan")
    assert HOSTILE[1] in text(browser, "instance-list")
    strange = "return document.querySelectorAll('img, iframe, body > header script').length"
    assert browser.execute_script(strange) == 0
    assert browser.title == f"{HOSTILE[1]}, streamlet"
    assert complaints(browser) == []
