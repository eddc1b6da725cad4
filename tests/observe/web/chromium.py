"""A headless Chromium, driven by its own protocol: pages are opened, looked at and typed into."""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import aiohttp

__all__ = ["DESK", "PHONE", "Browser", "Screen", "Tab"]

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
)
_READY = "DevTools listening on ws://"

#: How long a page may take until it shows what a test waits for, in milliseconds.
PATIENCE = 15_000

#: Width and height.
Screen = tuple[int, int]
DESK: Screen = (1440, 900)
PHONE: Screen = (390, 844)


class Browser:
    """A browser that runs, with a folder of its own."""

    def __init__(self, address: str) -> None:
        self._address = address

    @classmethod
    @contextmanager
    def running(cls, folder: Path) -> Iterator[Browser]:
        """Start the browser, and end it."""
        command = ["chromium", *_FLAGS, f"--user-data-dir={folder}", "about:blank"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            try:
                ready = next((line for line in process.stderr if line.startswith(_READY)), None)
                assert ready is not None, "chromium ended before it was ready"
                # Nobody reads what it says from now on, but it must get rid of it.
                Thread(target=process.stderr.read, daemon=True).start()
                yield cls(ready.removeprefix(_READY).partition("/")[0])
            finally:
                process.terminate()
                process.wait()
        shutil.rmtree(folder, ignore_errors=True)

    @asynccontextmanager
    async def open(self, url: str, *, screen: Screen = DESK, dark: bool = False) -> AsyncIterator[Tab]:
        """Open a page in a tab of its own; whatever it complains of fails the test."""
        async with aiohttp.ClientSession() as session:
            async with session.put(f"http://{self._address}/json/new?about:blank") as response:
                target = await response.json(content_type=None)
            async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as connection:
                tab = Tab(connection)
                await tab.look_from(screen, dark=dark)
                await tab.go(url)
                yield tab
            async with session.get(f"http://{self._address}/json/close/{target['id']}"):
                pass
        assert tab.complaints == []


class Tab:
    """A page that is open: `complaints` are its errors and broken policies, `asked` the addresses it has asked for."""

    def __init__(self, connection: aiohttp.ClientWebSocketResponse) -> None:
        self._connection = connection
        self._numbers = itertools.count(1)
        self.complaints: list[str] = []
        self.asked: list[str] = []

    async def look_from(self, screen: Screen, *, dark: bool) -> None:
        """Take notice of what happens, on a screen of this size and in this light."""
        for domain in ("Runtime", "Log", "Page", "Network"):
            await self._call(f"{domain}.enable")
        width, height = screen
        await self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=screen == PHONE,
        )
        light = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self._call("Emulation.setEmulatedMedia", features=[light])

    async def go(self, url: str) -> None:
        """Go to an address, and wait until the page and its script are there."""
        await self._call("Page.navigate", url=url)
        await self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    async def run(self, script: str) -> Any:
        """Return what an expression comes to, awaited if need be."""
        answer = await self._call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def until(self, condition: str) -> None:
        """Wait until the condition, an expression, holds."""
        waiting = f"""new Promise((resolve, reject) => {{
            const end = Date.now() + {PATIENCE};
            const look = () => {{
                if ({condition}) resolve();
                else if (Date.now() > end) reject(new Error("in vain: " + {json.dumps(condition)}));
                else setTimeout(look, 10);
            }};
            look();
        }})"""
        await self.run(waiting)

    async def text(self, selector: str) -> str:
        """Return the text that is seen in an element."""
        found = await self.run(f"document.querySelector({json.dumps(selector)}).innerText")
        assert isinstance(found, str)
        return found

    async def texts(self, selector: str) -> list[str]:
        """Return the texts that are seen in all such elements."""
        found = await self.run(f"[...document.querySelectorAll({json.dumps(selector)})].map(each => each.innerText)")
        assert isinstance(found, list)
        return found

    async def click(self, selector: str) -> None:
        """Click on the first such element."""
        await self.run(f"document.querySelector({json.dumps(selector)}).click()")

    async def press(self, *keys: str) -> None:
        """Press keys, named as in a KeyboardEvent."""
        for key in keys:
            text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
            code = {"Enter": 13, "Escape": 27, "Tab": 9}.get(key, 0)
            typed = {"key": key, "text": text, "windowsVirtualKeyCode": code}
            await self._call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **typed)
            await self._call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    async def picture(self, selector: str, *, margin: int, scale: float) -> bytes:
        """Return a WebP of the page from its top to such an element and a margin, scaled by `scale`."""
        width = await self.run("document.documentElement.clientWidth")
        bottom = await self.run(f"document.querySelector({json.dumps(selector)}).getBoundingClientRect().bottom")
        clip = {"x": 0, "y": 0, "width": width, "height": round(bottom) + margin, "scale": scale}
        answer = await self._call(
            "Page.captureScreenshot", format="webp", quality=90, clip=clip, captureBeyondViewport=True
        )
        return base64.b64decode(answer["data"])

    async def nameless(self) -> list[str]:
        """List what can be used but has no name that a screen reader could say."""
        answer = await self._call("Accessibility.getFullAXTree")
        usable = {"button", "link", "radio", "searchbox", "slider", "textbox", "region", "dialog"}
        return [
            node["role"]["value"]
            for node in answer["nodes"]
            if not node["ignored"] and node["role"]["value"] in usable and not node.get("name", {}).get("value")
        ]

    async def _call(self, method: str, **parameters: object) -> dict[str, Any]:
        number = next(self._numbers)
        await self._connection.send_json({"id": number, "method": method, "params": parameters})
        while True:
            message = await self._connection.receive_json()
            if message.get("id") == number:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result
            self._notice(message)

    def _notice(self, message: dict[str, Any]) -> None:
        about = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.complaints.append(str(about["exceptionDetails"]))
            case "Log.entryAdded" if about["entry"]["level"] == "error":
                self.complaints.append(f"{about['entry']['text']} {about['entry'].get('url', '')}")
            case "Runtime.consoleAPICalled":
                self.complaints.append(str(about["args"]))
            case "Network.requestWillBeSent":
                self.asked.append(about["request"]["url"])
