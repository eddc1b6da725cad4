"""The page of a second engine: its own tables, what they lead to, and its report, in a browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from kframework.errors import escape_text
from kframework.objects import ApiObject
from kframework.observe.report import report
from kframework.testing import make_node, make_pod
from tests.observe.web.chromium import DESK, PHONE, Browser, Screen, Tab
from tests.observe.web.second_engine import SecondShown, second, served
from tests.observe.web.test_page import CONTRAST, NASTY

pytestmark = [pytest.mark.slow, pytest.mark.tool("chromium"), pytest.mark.blocks_loop]

OBJECTS: tuple[ApiObject, ...] = (make_node("a"), make_pod("web"), make_pod("late"))


async def shown(tab: Tab) -> None:
    for selector in ("#section-days tbody tr", "#pods tr", "#attempts tr", "#picture tr"):
        await tab.until(f"document.querySelector({selector!r})")


async def test_section_cells_are_drawn_by_column_kind(browser: Browser) -> None:
    async with served(second(*OBJECTS)) as url, browser.open(url) as tab:
        await shown(tab)
        assert await tab.texts("#sections h2") == ["Opening days", "Nothing"]
        assert await tab.texts("#own a") == ["Opening days", "Nothing"]
        (monday, tuesday) = [" ".join(row.split()) for row in await tab.texts("#section-days tbody tr")]
        clock = await tab.run("moment(now)")
        assert monday == f"Monday 1,234 25 % cpu 1.5 of 3 memory 1 GiB {clock} 1.5 ms open on Monday default/web"
        assert tuesday == "Tuesday"
        assert await tab.text("#section-days .note") == "The first 2 of 7. As posted."
        assert await tab.text("#section-more .note") == "None."


async def test_unchanged_section_is_not_redrawn(browser: Browser) -> None:
    made = second(*OBJECTS)
    assert isinstance(made, SecondShown)
    async with served(made) as url, browser.open(url) as tab:
        await shown(tab)
        row = "document.querySelector('#section-days tbody tr')"
        await tab.run(f"window.kept = {row}; document.querySelector('#section-days a').focus()")
        await tab.run("refresh('sections')")
        assert await tab.run(f"window.kept === {row}")
        made.text = "shut"
        await tab.run("refresh('sections')")
        assert await tab.run(f"window.kept !== {row}")
        assert await tab.run("document.activeElement.innerText") == "Monday"


async def test_page_shows_queues_and_plugins_of_the_engine(browser: Browser) -> None:
    async with served(second(*OBJECTS)) as url, browser.open(url) as tab:
        await shown(tab)
        assert await tab.texts("#queues button") == ["All\n2", "Queue at the door\n2"]
        await tab.click("#holders [data-value='p/Guard']")
        await tab.until("document.querySelector('#holders [aria-pressed=true]')")
        assert await tab.texts("#pods .pod") == ["default/web", "default/late"]


async def test_section_rows_link_to_details_and_text_explanations(browser: Browser) -> None:
    async with served(second(*OBJECTS)) as url, browser.open(url) as tab:
        await shown(tab)
        await tab.click("#section-days a")
        await tab.until("document.querySelector('dialog tbody tr')")
        assert await tab.text("dialog h2") == "day monday"
        assert await tab.texts("dialog .explained span") == ["It is open on Monday.", "Come on Monday."]
        assert await tab.texts("dialog tbody tr") == ["open on Monday 9", "open on Monday 10"]
        await tab.press("Escape")
        await tab.until("location.hash === ''")


async def test_pod_detail_lists_its_attempts(browser: Browser) -> None:
    async with served(second(*OBJECTS)) as url, browser.open(f"{url}/#pod/default%2Fweb") as tab:
        await tab.until("document.querySelector('dialog tbody tr')")
        assert "Unschedulable" in await tab.text("dialog tbody") and "closed today" in await tab.text("dialog tbody")


async def test_detail_of_an_unknown_object_shows_a_note(browser: Browser) -> None:
    async with served(second(*OBJECTS)) as url, browser.open(f"{url}/#day/sunday") as tab:
        await tab.until("document.querySelector('dialog .note').innerText === 'No data about this day.'")


async def test_missing_explanation_shows_its_error(browser: Browser) -> None:
    class Unexplained(SecondShown):
        def explanations(self, sort: str, names: object) -> dict[str, object]:
            return {}

    async with browser.open("about:blank#") as tab:
        async with served(second(*OBJECTS, shown=Unexplained)) as url:
            await tab.go(f"{url}/#day/monday")
            await tab.until("document.querySelector('dialog .note').innerText.startsWith('The answer was 500')")
            assert await tab.texts("dialog tbody tr") == ["open on Monday 9", "open on Monday 10"]
        tab.complaints.clear()  # the browser notes every answer that is no 200


@pytest.mark.parametrize(
    "hostile", [NASTY, "a\x1b\x9b\u202eb\u2066\u200f\u200b\ufeff\u2028\x85\xa0\U000e0041\u3164\r\n\tc"]
)
async def test_section_cells_are_inserted_as_text(browser: Browser, hostile: str) -> None:
    made = second(*OBJECTS)
    assert isinstance(made, SecondShown)
    made.text = hostile
    async with served(made) as url, browser.open(url) as tab:
        await shown(tab)
        assert escape_text(hostile) in await tab.text("#section-days")
        await tab.click("#section-days a")
        await tab.until("document.querySelector('dialog tbody tr')")
        explained = await tab.text("dialog .explained")
        assert all(escape_text(line) in explained for line in hostile.split("\n"))
        assert escape_text(hostile) in await tab.text("dialog tbody")
        assert await tab.run("document.querySelectorAll('img').length") == 0


@pytest.mark.parametrize("screen", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_sections_are_accessible(browser: Browser, screen: Screen, dark: bool) -> None:
    async with served(second(*OBJECTS)) as url, browser.open(url, screen=screen, dark=dark) as tab:
        await shown(tab)
        for _ in range(2):
            assert await tab.run(CONTRAST) == []
            assert await tab.nameless() == []
            assert await tab.run("document.documentElement.scrollWidth <= innerWidth")
            await tab.click("#section-days a")
            await tab.until("document.querySelector('dialog tbody tr')")


async def test_report_has_the_sections_and_their_details(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(report(second(*OBJECTS), title="Closed"), encoding="utf-8")
    async with browser.open(file.as_uri()) as tab:
        await shown(tab)
        assert {url for url in tab.asked if not url.startswith("data:")} == {file.as_uri()}
        await tab.click("#queues [data-value='queue at the door']")
        await tab.until("document.querySelectorAll('#pods tr').length === 2")
        await tab.click("#holders button")
        await tab.until("document.querySelector('#holders [aria-pressed=true]')")
        assert await tab.texts("#pods .pod") == ["default/web", "default/late"]
        await tab.click("#section-days a")
        await tab.until("document.querySelector('dialog .explained')")
        assert await tab.texts("dialog tbody tr") == ["open on Monday 9", "open on Monday 10"]
        await tab.run("location.hash = 'pod/default%2Fweb'")
        await tab.until("document.querySelector('dialog').innerText.includes('closed today')")
        await tab.run("location.hash = 'day/sunday'")
        await tab.until("document.querySelector('dialog').innerText.includes('No explanation of this day')")
