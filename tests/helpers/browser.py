"""A real browser, driven over the DevTools protocol: one process, and a page of its own a test."""

import asyncio
import contextlib
import json
import shutil
import subprocess
import time
from pathlib import Path

import aiohttp

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"),
    *("--disable-dev-shm-usage", "--remote-debugging-port=0", "--disable-background-networking"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
WAIT = 300
SHOWS = "[...document.querySelectorAll('{}')].map((node) => node.textContent).join(' ')"
DRAWN = "[...document.querySelectorAll('{}')].every((node) => node.querySelector('svg.drawn'))"
OVER = "document.documentElement.scrollWidth - innerWidth"


class Connection:
    """A socket to the browser or to one of its pages; it keeps what a page did."""

    def __init__(self, socket):
        self._socket, self._asked, self._answers = socket, 0, {}
        self.requests, self.complaints = [], []

    async def listen(self):
        async for message in self._socket:
            said = json.loads(message.data)
            if "id" in said:
                self._answers[said["id"]].set_result(said)
                continue
            what, told = said["method"], said["params"]
            if what == "Network.requestWillBeSent":
                self.requests.append(told["request"]["url"])
            elif what == "Runtime.exceptionThrown" or (
                what == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning")
            ):
                self.complaints.append(told)
            elif what == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
                self.complaints.append(told["entry"]["text"])

    async def call(self, method, **params):
        self._asked += 1
        self._answers[self._asked] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": self._asked, "method": method, "params": params})
        answer = await asyncio.wait_for(self._answers[self._asked], WAIT)
        assert "error" not in answer, answer["error"]
        return answer["result"]


class Tab(Connection):
    """A page in the browser."""

    async def run(self, script):
        """The value of an expression, as JSON."""
        said = await self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in said, said["exceptionDetails"]
        return said["result"].get("value")

    async def until(self, script):
        """Wait until an expression is true in the page."""
        end = time.monotonic() + WAIT
        while not await self.run(f"Boolean({script})"):
            assert time.monotonic() < end, f"never true: {script}"
            await asyncio.sleep(0.1)

    async def open(self, path, width=1280, scheme="light", height=2000):
        await self.resize(width, height)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        await self.call("Emulation.setEmulatedMedia", features=[feature])
        await self.call("Page.navigate", url=path.as_uri())
        await self.until(
            f"document.readyState === 'complete' && location.href === '{path.as_uri()}'"
        )

    async def resize(self, width, height=2000):
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        await self.call("Emulation.setDeviceMetricsOverride", **metrics)


class Browser:
    """One browser; ends with its ``with``."""

    def __init__(self, profile: Path) -> None:
        command = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, **silent)
        file, end = profile / "DevToolsActivePort", time.monotonic() + WAIT
        while not (file.exists() and file.read_text().count("\n")):
            assert self._process.poll() is None, "the browser did not start"
            assert time.monotonic() < end, "the browser says nothing"
            time.sleep(0.1)
        port, path = file.read_text().split()
        self._pages = f"ws://127.0.0.1:{port}/devtools/page/"
        self._itself = f"ws://127.0.0.1:{port}{path}"

    def visit(self, what):
        """Run ``await what(tab)`` with a page that shares no storage with any other."""
        asyncio.run(self._visit(what))

    async def _visit(self, what):
        async with self._connected(self._itself, Connection) as browser:
            mine = await browser.call("Target.createBrowserContext")
            page = await browser.call("Target.createTarget", url="about:blank", **mine)
            try:
                async with self._connected(self._pages + page["targetId"], Tab) as tab:
                    for domain in ("Page", "Runtime", "Network", "Log"):
                        await tab.call(f"{domain}.enable")
                    await what(tab)
            finally:
                await browser.call("Target.disposeBrowserContext", **mine)

    @contextlib.asynccontextmanager
    async def _connected(self, url, kind):
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(url, max_msg_size=0) as socket,
        ):
            connection = kind(socket)
            listening = asyncio.create_task(connection.listen())
            yield connection
            listening.cancel()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        self._process.kill()
        self._process.wait()


def shows(selector):
    return SHOWS.format(selector)


async def deaf(tab, page):
    """Nothing from data ran, nothing was asked for, nothing went wrong."""
    assert await tab.run("typeof window.pwned") == "undefined"
    assert await tab.run("document.querySelectorAll('main script:not([type]), img').length") == 0
    assert await tab.run("document.querySelectorAll('a[href^=javascript], svg a').length") == 0
    asked = [url for url in tab.requests if not url.startswith("data:")]
    assert set(asked) <= {page.as_uri(), "about:blank"}
    assert not tab.complaints


async def fits(tab):
    """No page wider than a phone, or than a desk's window."""
    for width in (400, 1280):
        await tab.resize(width)
        await tab.until(f"{OVER} <= 0")
        assert await tab.run("[...document.scripts].every((script) => !script.checkVisibility())")
