"""A report, as its readers see it: a file in a browser, without a scheduler."""

from __future__ import annotations

import pytest

from kframework.simulation.simulation import Simulation, simulate
from kframework.testing import make_node, make_pod
from tests.observe.web.chromium import DESK, PHONE, Browser, Screen
from tests.support.groups import PLACEMENTS, gang, in_one, members

pytestmark = [pytest.mark.slow, pytest.mark.tool("chromium")]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write the report of a simulation that leaves pods pending; return its address."""
    objects = [
        make_node("a", zone="east"),
        make_node("b", zone="west", taints=["spot:NoSchedule"]),
        make_pod("first", cpu=3, annotations={"kframework.dev/run-seconds": "65"}),
        make_pod("second", cpu=3),
        make_pod("huge", cpu=99),
        make_pod("gated", gates=["quota"]),
    ]
    file = tmp_path_factory.mktemp("report") / "report.html"
    with file.open("w", encoding="utf-8") as page:
        with Simulation(objects, timed_share=1.0) as simulation:
            page.write(simulation.run().report("Simulation of a test"))
    return file.as_uri()


@pytest.fixture(scope="module")
def group_address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write the report of a simulation of a large group that no domain has room for; return its address."""
    racks = [make_node(f"{rack}-0", cpu=4, labels={"rack": rack}) for rack in "ab"]
    file = tmp_path_factory.mktemp("report") / "group.html"
    with Simulation([*racks, in_one("rack", gang("g", 9)), *members("g", 40)], config=PLACEMENTS) as simulation:
        simulation.run(5)
        file.write_text(simulation.report(), encoding="utf-8")
    return file.as_uri()


async def test_report_page_makes_no_requests(browser: Browser, address: str) -> None:
    async with browser.open(address) as tab:
        await tab.until("document.querySelectorAll('#pods tr').length === 2")
        assert {url for url in tab.asked if not url.startswith("data:")} == {address}
        assert await tab.text("#state") == "Simulation of a test"
        assert await tab.run("document.title") == "Simulation of a test"
        assert await tab.run("document.querySelector('#pause').hidden")


async def test_report_times_are_relative_to_the_start(browser: Browser, address: str) -> None:
    async with browser.open(address) as tab:
        await tab.until("document.querySelectorAll('#attempts tr').length === 5")
        rows = [row.split() for row in await tab.texts("#attempts tr")]
        assert [(row[0], row[1]) for row in rows][:2] == [("+1:05", "default/huge"), ("+1:05", "default/second")]
        assert {row[0] for row in rows[2:]} == {"+0:00"}
        await tab.click("#results [data-value=unschedulable]")
        assert len(await tab.texts("#attempts tr")) == 3


async def test_report_pods_can_be_filtered_by_queue_and_plugin(browser: Browser, address: str) -> None:
    async with browser.open(address) as tab:
        await tab.until("document.querySelectorAll('#pods tr').length === 2")
        await tab.click("#queues [data-value=gated]")
        await tab.until("document.querySelectorAll('#pods tr').length === 1")
        assert await tab.texts("#pods .pod") == ["default/gated"]
        await tab.click("#holders [data-value='default-scheduler/NodeResourcesFit']")
        await tab.until("document.querySelector('#pods .pod').innerText === 'default/huge'")
        await tab.click("#queues [data-value=active]")
        await tab.until("document.querySelector('#pods-note').innerText === 'No pod waits here.'")


async def test_report_explains_waiting_pods(browser: Browser, address: str) -> None:
    async with browser.open(f"{address}#pod/default%2Fhuge") as tab:
        await tab.until("document.querySelector('dialog .help')")
        assert "Insufficient cpu" in await tab.text("dialog .rejections")
        await tab.run("location.hash = 'pod/default%2Fsecond'")
        await tab.until("document.querySelector('dialog').innerText.includes('No explanation of this pod')")


async def test_report_explains_a_group_in_a_few_lines(browser: Browser, group_address: str) -> None:
    async with browser.open(f"{group_address}#pod/default%2Fg-0") as tab:
        await tab.until("document.querySelector('dialog .help')")
        assert "Unschedulable · group g" in (await tab.texts("#pods tr"))[0]
        assert "0/2 placements are available" not in await tab.text("dialog .pod-state")
        assert "0/2 placements are available" in await tab.text("dialog section:first-of-type .message")
        facts = await tab.texts("dialog section:first-of-type .facts > div")
        assert [" ".join(fact.split()) for fact in facts] == [
            "Failed first default/g-4: 0/1 nodes are available: 1 Insufficient cpu.",
            "Placement a 4 pods placed; g-4: 0/1 nodes are available: 1 Insufficient cpu.",
            "Placement b 4 pods placed; g-4: 0/1 nodes are available: 1 Insufficient cpu.",
            "32 pods unschedulable: as g-4",
            "8 pods unschedulable: as the group",
        ]


async def test_report_finds_nodes_and_pods(browser: Browser, address: str) -> None:
    async with browser.open(address) as tab:
        await tab.until("document.querySelectorAll('#pods tr').length === 2")
        await tab.press("/", "s", "e", "c")
        await tab.until("document.querySelectorAll('#matches a').length === 1")
        assert await tab.texts("#matches a") == ["default/second a"]
        await tab.run("location.hash = 'node/a'")
        await tab.until("document.querySelector('dialog tbody tr')")
        assert await tab.texts("dialog tbody .pod") == ["default/second"]


async def test_report_shows_plugin_times(browser: Browser, address: str) -> None:
    async with browser.open(address) as tab:
        await tab.until("document.querySelector('#parts article')")
        await tab.click("#parts summary")
        rows = [row.split() for row in await tab.texts("#parts tbody tr")]
        (fit,) = (row for row in rows if row[0] == "NodeResourcesFit")
        assert "µs" in fit or "ms" in fit


@pytest.mark.parametrize("screen", [DESK, PHONE], ids=["desk", "phone"])
async def test_page_has_no_horizontal_overflow(browser: Browser, address: str, screen: Screen) -> None:
    async with browser.open(address, screen=screen, dark=True) as tab:
        await tab.until("document.querySelector('#parts article')")
        assert await tab.run("document.documentElement.scrollWidth <= innerWidth")


@pytest.fixture(scope="module")
def long_names(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Report a simulation whose names are longer than a line on a phone."""
    file = tmp_path_factory.mktemp("names") / "report.html"
    with file.open("w", encoding="utf-8") as page:
        objects = [make_node("north-1"), *(make_pod("x" * length) for length in range(5, 20))]
        page.write(simulate(objects).report(f"Simulation of /{'a-folder-with-a-name/' * 8}cluster.yaml"))
    return file.as_uri()


async def test_long_names_fit_on_a_phone(browser: Browser, long_names: str) -> None:
    async with browser.open(long_names, screen=PHONE) as tab:
        await tab.until("document.querySelector('#attempts .node')")
        assert await tab.run("document.querySelector('#state').getBoundingClientRect().right") <= PHONE[0]
        heights = "[...document.querySelectorAll('#attempts .node')].map((node) => node.getBoundingClientRect().height)"
        found = await tab.run(heights)
        assert len(found) == 15 and max(found) < 30
