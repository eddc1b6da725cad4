"""The page of a scheduler that runs, as its users see it: in a browser."""

from __future__ import annotations

import re

import pytest

from kframework import unschedulable
from kframework.core.runtime.registry import Registry
from kframework.errors import escape_text
from kframework.explain import text as explanation_text
from kframework.objects import Taint
from kframework.observe.history import Reload
from kframework.state.inbox import Deleted, SourceChanged, Upserted
from kframework.testing import make_node, make_pod
from tests.explain.scene import Scene
from tests.extension_points.scripted import alone, plugin
from tests.observe.web.chromium import DESK, PHONE, Browser, Screen, Tab
from tests.observe.web.serving import served
from tests.support.devices import with_claim
from tests.support.missing_devices import WORN, claim, device_class, give_devices, gpu, request, slice_of_n1
from tests.support.source_plugins import busy_plugin

# To set a scene is to import plugins; that serving it blocks nobody is tried in test_routes.py.
pytestmark = [pytest.mark.slow, pytest.mark.tool("chromium"), pytest.mark.blocks_loop]

SCREENS = pytest.mark.parametrize("screen", [DESK, (768, 1024), PHONE], ids=["desk", "tablet", "phone"])
LIGHTS = pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])


def scene() -> Scene:
    """Let pods of every fate be there: bound, too large, not tolerating, gated, and one that has just come."""
    made = Scene(
        make_node("a", zone="east", cpu=4),
        make_node("b", zone="west", cpu=8, taints=["spot:NoSchedule"]),
        make_node("c", zone="west", cpu=2, unschedulable=True),
        make_pod("runs", cpu=3, node_name="a"),
        make_pod("fits", cpu="500m"),
        make_pod("huge", cpu=64),
        make_pod("large", cpu=6),
        make_pod("gated", namespace="team", gates=["example.com/quota"]),
    ).settle()
    made.engine.offer(Upserted(make_pod("late")))
    made.engine.apply_messages()
    return made


async def shown(tab: Tab) -> None:
    """Wait until everything is there."""
    for selector in ("#figures dd", "#pods tr", "#attempts tr", "#picture tr, #picture rect", "#parts article"):
        await tab.until(f"document.querySelector({selector!r})")


async def names(tab: Tab, selector: str) -> list[str]:
    return [text.rpartition("/")[2] for text in await tab.texts(f"{selector} .pod")]


async def test_page_shows_all_views(browser: Browser) -> None:
    async with served(scene()) as url, browser.open(url) as tab:
        await shown(tab)
        figures = dict(zip(await tab.texts("#figures dt"), await tab.texts("#figures dd"), strict=True))
        assert {name: figures[name] for name in ("Nodes", "Pods on nodes", "Waiting", "Attempts")} == {
            "Nodes": "3",
            "Pods on nodes": "2",
            "Waiting": "5",
            "Attempts": "3",
        }
        counts = "All 5, Active 1, Backing off 0, Unschedulable 2, Gated 1, Binding 1"
        assert ", ".join(await tab.texts("#queues button")).replace("\n", " ") == counts
        assert await names(tab, "#pods") == ["late", "huge", "large", "gated", "fits"]
        assert await names(tab, "#attempts") == ["large", "huge", "fits"]
        assert await tab.texts("#picture .node") == ["a", "b", "c"]
        assert (await tab.texts("#parts h3")) == ["default-scheduler"]
        assert "default-scheduler" in await tab.text("#who")


async def test_waiting_pod_shows_queue_plugin_and_reason(browser: Browser) -> None:
    async with served(scene()) as url, browser.open(url) as tab:
        await shown(tab)
        row = await tab.text("#pods tr:nth-child(2)")
        assert row.split() == [
            *"default/huge Unschedulable NodeResourcesFit, NodeUnschedulable, TaintToleration".split(),
            *"1 Insufficient cpu, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable 1 0s".split(),
        ]


async def test_waiting_pods_can_be_filtered_by_queue_or_plugin(browser: Browser) -> None:
    async with served(scene()) as url, browser.open(url) as tab:
        await shown(tab)
        await tab.click("#queues [data-value=gated]")
        await tab.until("document.querySelectorAll('#pods tr').length === 1")
        assert await names(tab, "#pods") == ["gated"]
        await tab.click("#holders [data-value='default-scheduler/TaintToleration']")
        await tab.until("document.querySelectorAll('#pods tr').length === 2")
        assert await names(tab, "#pods") == ["huge", "large"]
        assert await tab.texts("#waiting [aria-pressed=true]") == ["TaintToleration\n2"]
        await tab.click("#holders [data-value='default-scheduler/TaintToleration']")
        await tab.until("document.querySelectorAll('#pods tr').length === 5")


async def test_decisions_can_be_filtered_by_result(browser: Browser) -> None:
    async with served(scene()) as url, browser.open(url) as tab:
        await shown(tab)
        await tab.click("#results [data-value=scheduled]")
        assert await names(tab, "#attempts") == ["fits"]
        assert "→ a" in await tab.text("#attempts tr")


async def test_new_decisions_appear_without_reload(browser: Browser) -> None:
    made = scene()
    async with served(made) as url, browser.open(url) as tab:
        await shown(tab)
        await tab.run("window.kept = document.querySelector('#attempts tr')")
        made.settle()
        await tab.until("document.querySelectorAll('#attempts tr').length === 4")
        assert await names(tab, "#attempts") == ["late", "large", "huge", "fits"]
        assert await tab.run("window.kept === document.querySelectorAll('#attempts tr')[1]")
        await tab.until("document.querySelectorAll('#pods tr').length === 5")


async def test_focused_element_keeps_the_focus_on_refresh(browser: Browser) -> None:
    made = scene()
    async with served(made) as url, browser.open(url) as tab:
        await shown(tab)
        await tab.run("document.querySelector('#pods [data-key=\"default/large\"] a').focus()")
        made.engine.offer(Upserted(make_pod("newer")))
        made.engine.offer(Deleted(make_pod("huge", cpu=64)))
        made.engine.apply_messages()
        await tab.until("document.querySelector('#pods [data-key=\"default/newer\"]')")
        assert await tab.run("document.activeElement.innerText") == "default/large"


async def test_paused_page_makes_no_requests(browser: Browser) -> None:
    made = scene()
    async with served(made) as url, browser.open(url) as tab:
        await shown(tab)
        await tab.click("#pause")
        assert await tab.text("#pause") == "Resume"
        assert (await tab.text("#state")).startswith("paused at ")
        tab.asked.clear()
        await tab.run("Promise.all(Object.keys(views).map(refreshIfVisible))")
        assert tab.asked == []
        made.settle()
        await tab.click("#pause")
        await tab.until("document.querySelectorAll('#attempts tr').length === 4")


async def test_page_shows_that_the_scheduler_does_not_respond(browser: Browser) -> None:
    async with browser.open("about:blank#") as tab:
        async with served(scene()) as url:
            await tab.go(url)
            await shown(tab)
            assert await tab.run("document.querySelector('#state').dataset.state") == "live"
        await tab.until("document.querySelector('#state').dataset.state === 'lost'")
        assert (await tab.text("#state")).startswith("no answer since ")
        assert await names(tab, "#pods") != []
        tab.complaints.clear()  # that nobody answers is what was tried


async def test_page_says_what_came_of_the_last_reload(browser: Browser) -> None:
    made = scene()
    made.history.reload = Reload(made.engine.clock.now(), 2, problem="file.yaml:3: there is no plugin")
    async with served(made) as url, browser.open(url) as tab:
        await shown(tab)
        text = "the configuration file was refused, configuration 2 goes on. file.yaml:3: there is no plugin"
        assert (await tab.text("#reload.error")).endswith(text)


async def test_pod_detail_shows_its_explanation(browser: Browser) -> None:
    async with served(scene()) as url, browser.open(url) as tab:
        await shown(tab)
        await tab.click("#pods [data-key='default/large'] a")
        await tab.until("document.querySelector('dialog .help')")
        said = await tab.text("dialog")
        assert "default/large" in said and "unschedulable" in said
        assert await tab.texts("dialog .help li") != []
        assert [row.split("\t")[0].strip() for row in await tab.texts("dialog .rejections tbody tr")] != []
        assert "NodeResourcesFit is woken by" in said
        assert "The last attempt" in said
        await tab.press("Escape")
        await tab.until("!document.querySelector('dialog').open")
        await tab.until("location.hash === ''")


async def test_page_and_command_line_name_actions_alike(browser: Browser) -> None:
    async with served(scene()) as url, browser.open(url) as tab:
        assert await tab.run("ACTIONS") == explanation_text._ACTIONS


async def test_pod_detail_compares_scores_of_feasible_nodes(browser: Browser) -> None:
    made = Scene(make_node("a", cpu=4), make_node("b", cpu=16), make_pod("runs", cpu=2, node_name="a"), make_pod("pod"))
    made.engine.apply_messages()
    async with served(made) as url, browser.open(f"{url}/#pod/default%2Fpod") as tab:
        await tab.until("document.querySelector('dialog .ranking')")
        assert await tab.texts("dialog .ranking .node") == ["b", "a"]
        decider = await tab.run("document.querySelector('dialog [data-decides] th').innerText.trim()")
        assert f"mostly because of {decider}." in await tab.text("dialog")


async def test_pod_on_a_node_shows_why_it_is_there_and_not_on_the_runner_up(browser: Browser) -> None:
    stocked = make_node("stocked", cpu=4, memory="8Gi", images={"shop:1": 400_000_000})
    made = Scene(
        make_node("large", cpu=8, memory="16Gi"), stocked, make_pod("pod", cpu=1, memory="1Gi", image="shop:1")
    )
    made.settle()
    choice = made.explain("pod").choice
    assert choice is not None and len(choice.weight_changes) > 1
    async with served(made) as url, browser.open(f"{url}/#pod/default%2Fpod") as tab:
        await tab.until("document.querySelector('dialog .sentence')")
        assert "Why here" in await tab.text("dialog")
        assert await tab.texts("dialog .sentence") == [choice.message]
        weights = [f"{each.plugin} {each.weight} → {each.new_weight}" for each in choice.weight_changes]
        assert (
            await tab.run("[...document.querySelectorAll('dialog details li')].map((li) => li.textContent)") == weights
        )
        runner_up = await tab.run("document.querySelector('dialog details summary a').getAttribute('href')")
        assert runner_up == f"#node/{choice.runner_up}"


async def test_waiting_binding_shows_hook_and_duration(browser: Browser) -> None:
    made = scene()
    binding = made.engine.cluster.waiting.get(make_pod("fits").metadata.uid)
    assert binding is not None
    binding.hook_started("pre_bind", "Quota", made.engine.clock.now() - 40)
    async with served(made) as url, browser.open(url) as tab:
        await shown(tab)
        assert "in Quota.pre_bind for 40s" in await tab.text("#pods [data-key='default/fits']")
        await tab.click("#pods [data-key='default/fits'] a")
        await tab.until("document.querySelector('dialog .pod-state')")
        said = " ".join((await tab.text("dialog")).split())
        assert "Binding waits in Quota.pre_bind" in said and "(40s)" in said


async def test_unknown_pod_or_node_shows_an_error(browser: Browser) -> None:
    made = scene()
    made.engine.offer(Upserted(make_pod("foreign")))
    async with served(made) as url, browser.open(f"{url}/#node/nowhere") as tab:
        await tab.until("document.querySelector('dialog').innerText.includes('there is no node')")
        tab.complaints.clear()  # the browser notes every answer that is no 200


async def test_node_detail_shows_its_pods(browser: Browser) -> None:
    async with served(scene()) as url, browser.open(f"{url}/#node/a") as tab:
        await tab.until("document.querySelectorAll('dialog tbody tr').length === 2")
        await shown(tab)
        await tab.go(f"{url}/#node/b")
        await tab.until("document.querySelector('dialog').innerText.includes('spot:NoSchedule')")
        assert "topology.kubernetes.io/zone=west" in await tab.text("dialog")


async def test_node_detail_shows_devices_and_pod_detail_their_rejections(browser: Browser) -> None:
    wanting = with_claim(make_pod("wants"), claim="c")
    objects = [
        make_node("n1"),
        slice_of_n1(gpu("gpu-0"), gpu("gpu-1", taints=[WORN])),
        device_class(),
        claim(request()),
    ]
    made = Scene(*objects, give_devices("gpu-0"), make_pod("holder", node_name="n1"), wanting).settle()
    async with served(made) as url, browser.open(f"{url}/#node/n1") as tab:
        await tab.until("document.querySelector('dialog .devices')")
        rows = await tab.texts("dialog .devices tbody tr")
        assert [" ".join(row.split()) for row in rows] == [
            "gpu-0 gpu.example.com/n1 default/holder claim default/of-holder",
            "gpu-1 tainted worn:NoSchedule gpu.example.com/n1",
        ]
        await tab.go(f"{url}/#pod/default%2Fwants")
        await tab.until("document.querySelector('dialog .rejection-details')")
        assert await tab.texts("dialog .rejection-details li") == [
            "r of claim default/c requests 1: 0 of 2 devices available",
            "1 in use by default/holder",
            "1 tainted worn:NoSchedule",
        ]


async def test_pod_in_a_node_detail_links_to_its_explanation(browser: Browser) -> None:
    async with served(scene()) as url, browser.open(f"{url}/#node/a") as tab:
        await tab.until("document.querySelector('dialog tbody a')")
        await tab.run(
            "[...document.querySelectorAll('dialog tbody a')].find(a => a.innerText.includes('fits')).click()"
        )
        await tab.until("document.querySelector('dialog .pod-state')")
        assert "binding" in await tab.text("dialog .pod-state")


def many(count: int) -> Scene:
    """Let there be many nodes in three zones, each fuller than the one before."""
    nodes = [make_node(f"node-{number}", zone=f"z{number % 3}", cpu=100, pods=110) for number in range(count)]
    pods = [make_pod(f"pod-{n}", cpu=n * 100 // count, node_name=f"node-{n}") for n in range(count) if n % 2]
    made = Scene(*nodes, *pods, make_pod("huge", cpu=1000), make_pod("fits"))
    return made.settle()


async def test_many_nodes_are_drawn_as_a_map_coloured_by_a_resource(browser: Browser) -> None:
    async with served(many(300)) as url, browser.open(url) as tab:
        await shown(tab)
        assert await tab.run("document.querySelectorAll('.cells rect:not(.cursor)').length") == 300
        assert await tab.run("[...document.querySelectorAll('.cells text')].map(each => each.textContent)") == [
            "z0 · 100",
            "z1 · 100",
            "z2 · 100",
        ]
        steps = "[...document.querySelectorAll('.cells rect:not(.cursor)')].map(each => each.getAttribute('class'))"
        by_cpu = await tab.run(steps)
        assert {"f0", "f5", "f9"} <= set(by_cpu)
        await tab.click("#resources input[value=pods]")
        assert set(await tab.run(steps)) == {"f0"}


async def test_node_map_can_be_used_with_the_keyboard(browser: Browser) -> None:
    async with served(many(300)) as url, browser.open(url) as tab:
        await shown(tab)
        await tab.run("document.querySelector('.cells').focus()")
        await tab.press("End")
        assert (await tab.text(".readout")).startswith("node-299 z2 · cpu 99/100 (99 %)")
        assert (await tab.run("document.activeElement.getAttribute('aria-valuetext')")).startswith("node-299: z2")
        await tab.press("ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home")
        assert (await tab.text(".readout")).startswith("node-0 ")
        await tab.press("Enter")
        await tab.until("document.querySelector('dialog').open")
        assert await tab.text("dialog h2") == "node-0"


@SCREENS
async def test_node_map_of_five_thousand_nodes_is_readable(browser: Browser, screen: Screen) -> None:
    async with served(many(5000)) as url, browser.open(url, screen=screen) as tab:
        await shown(tab)
        cells = "[...document.querySelectorAll('.cells rect:not(.cursor)')]"
        assert await tab.run(f"{cells}.length") == 5000
        assert await tab.run(f"{cells}.every(each => each.getBoundingClientRect().width >= 5)")
        assert await tab.run("document.querySelector('.cells').getBoundingClientRect().height") < 1200
        assert await tab.run("document.documentElement.scrollWidth <= innerWidth")


@SCREENS
async def test_page_has_no_horizontal_overflow(browser: Browser, screen: Screen) -> None:
    async with served(scene()) as url, browser.open(url, screen=screen) as tab:
        await shown(tab)
        assert await tab.run("document.documentElement.scrollWidth <= innerWidth")
        await tab.run("location.hash = 'pod/default%2Flarge'")
        await tab.until("document.querySelector('dialog .help')")
        assert await tab.run(
            "document.querySelector('dialog').scrollWidth <= document.querySelector('dialog').clientWidth"
        )
        left, right = await tab.run(
            "(({left, right}) => [left, right])(document.querySelector('dialog').getBoundingClientRect())"
        )
        assert left >= 0 and right <= screen[0]


CONTRAST = """(() => {
    const parts = (colour) => {
        const context = new OffscreenCanvas(1, 1).getContext("2d");
        context.fillStyle = colour;
        context.fillRect(0, 0, 1, 1);
        return [...context.getImageData(0, 0, 1, 1).data];
    };
    const luminance = (colour) => {
        const [r, g, b] = parts(colour).map((part) => part / 255)
            .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ground = (element) => {
        for (; element; element = element.parentElement) {
            const colour = getComputedStyle(element).backgroundColor;
            if (parts(colour)[3] === 255) return colour;
        }
        return "white";
    };
    const bad = [];
    for (const element of document.querySelectorAll("body *")) {
        const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
        if (!own || !element.checkVisibility() || element.closest("svg, script, style")) continue;
        const pair = [luminance(getComputedStyle(element).color), luminance(ground(element))].sort((a, b) => b - a);
        const contrast = (pair[0] + 0.05) / (pair[1] + 0.05);
        if (contrast < 4.5) bad.push(`${element.tagName}.${element.className}: ${contrast}`);
    }
    return bad;
})()"""


@LIGHTS
async def test_text_has_enough_contrast(browser: Browser, dark: bool) -> None:
    async with served(scene()) as url, browser.open(url, dark=dark) as tab:
        await shown(tab)
        bright = await tab.run("getComputedStyle(document.body).backgroundColor")
        assert (int(re.findall(r"\d+", bright)[0]) < 100) is dark
        assert await tab.run(CONTRAST) == []
        await tab.run("location.hash = 'pod/default%2Flarge'")
        await tab.until("document.querySelector('dialog .help')")
        assert await tab.run(CONTRAST) == []


async def test_interactive_elements_have_accessible_names(browser: Browser) -> None:
    async with served(scene()) as url, browser.open(url) as tab:
        await shown(tab)
        assert await tab.nameless() == []
        await tab.run("location.hash = 'pod/default%2Flarge'")
        await tab.until("document.querySelector('dialog .help')")
        assert await tab.nameless() == []


async def test_find_field_works_with_the_keyboard(browser: Browser) -> None:
    async with served(scene()) as url, browser.open(url) as tab:
        await shown(tab)
        await tab.press("/", "g", "a")
        await tab.until("document.querySelectorAll('#matches a').length === 1")
        assert await tab.texts("#matches a") == ["team/gated Gated"]
        await tab.press("ArrowDown", "Enter")
        await tab.until("document.querySelector('dialog').open")
        assert await tab.text("dialog h2") == "team/gated"
        assert await tab.run("document.querySelector('#matches').hidden")


async def test_find_field_shows_that_there_is_no_match(browser: Browser) -> None:
    async with served(scene()) as url, browser.open(url) as tab:
        await shown(tab)
        await tab.press("/", "q", "q")
        await tab.until("document.querySelector('#matches').innerText.includes('No pod or node matches')")
        await tab.press("Escape")
        assert await tab.run("document.querySelector('#matches').hidden")


NASTY = "<img src=x onerror=alert(1)>'\"`${1}&amp;"


async def test_names_and_messages_are_inserted_as_text(browser: Browser) -> None:
    rude = plugin("Rude", filter=unschedulable(NASTY))
    made = Scene(
        make_node(NASTY, zone=NASTY, labels={NASTY: NASTY}, taints=[Taint(key=NASTY, effect="NoSchedule")]),
        make_pod(NASTY, namespace=NASTY, node_name=NASTY),
        make_pod("held", namespace=NASTY),
        configuration=alone(rude),
        registry=Registry.with_plugins(rude),
    ).settle()
    async with served(made) as url, browser.open(url) as tab:
        await shown(tab)
        assert NASTY in await tab.text("#picture")
        assert NASTY in await tab.text("#pods")
        await tab.run("location.hash = nodeHash(nodes.names[0])")
        await tab.until("document.querySelector('dialog .terms')")
        assert {f"{NASTY}={NASTY}", f"{NASTY}:NoSchedule"} <= set(await tab.texts("dialog .terms code"))
        assert await tab.texts("dialog tbody .pod") == [f"{NASTY}/{NASTY}"]
        await tab.run("location.hash = document.querySelector('#pods a').hash")
        await tab.until("document.querySelector('dialog .pod-state')")
        assert f"0/1 nodes are available: 1 {NASTY}." in await tab.text("dialog .message")
        assert await tab.run("document.querySelectorAll('img').length") == 0


async def test_hidden_characters_are_escaped(browser: Browser) -> None:
    """Page and command line show the same for characters that turn the direction of writing or are invisible."""
    hostile = "a\x1b\x9b\u202eb\u2066\u200f\u200b\ufeff\u2028\x85\xa0\U000e0041\u3164\r\n\tc"
    rude = plugin("Rude", filter=unschedulable(hostile))
    made = Scene(
        make_node(hostile, zone=hostile, labels={hostile: hostile}, taints=[Taint(key=hostile, effect="NoSchedule")]),
        make_pod(hostile, namespace=hostile, node_name=hostile),
        make_pod("held", namespace=hostile),
        configuration=alone(rude),
        registry=Registry.with_plugins(rude),
    ).settle()
    said = """
        [
            document.body.innerText,
            ...Array.from(document.querySelectorAll("*"), (each) => [each.title, each.ariaLabel, each.ariaValueText]),
        ].join(" ")
    """
    async with served(made) as url, browser.open(url) as tab:
        await shown(tab)
        for hash, there in (
            ("nodeHash(nodes.names[0])", "dialog .terms"),
            ("document.querySelector('#pods a').hash", "dialog .pod-state"),
        ):
            await tab.run(f"location.hash = {hash}")
            await tab.until(f"document.querySelector('{there}')")
            text = await tab.run(said)
            assert escape_text(hostile) in text
            assert not {each for each in text if not each.isprintable()} - {"\n", "\t"}
            assert hostile[1:5] not in text


async def test_content_security_policy_is_enforced(browser: Browser) -> None:
    async with served(scene()) as url, browser.open(url) as tab:
        await shown(tab)
        refused = """(() => {
            try { document.body.innerHTML = "<b>no</b>"; return "let in"; } catch (fault) { return fault.name; }
        })()"""
        assert await tab.run(refused) == "TypeError"
        assert await tab.run("fetch('http://127.0.0.1:9/').then(() => 'let out', (fault) => fault.name)") == "TypeError"
        assert len(tab.complaints) > 0
        tab.complaints.clear()  # that it complains is what was tried


async def test_source_data_are_shown_with_their_age(browser: Browser) -> None:
    load = busy_plugin(when_stale="ignore")
    world = Scene(make_node("a"), make_pod("web"), configuration=alone(load), registry=Registry.with_plugins(load))
    world.engine.offer(SourceChanged("default-scheduler/Load/load", world.time, {"a": 0.9}))
    world.settle()
    world.time += 12
    async with served(world) as url, browser.open(f"{url}/#pod/default%2Fweb") as tab:
        await tab.until("document.querySelector('dialog .facts')")
        assert "Load, source load" in await tab.texts("dialog dt")
        assert "1 node, updated 12s ago" in await tab.texts("dialog dd")
        assert await tab.texts("#parts dd") == ["1 node, updated 12s ago"]
