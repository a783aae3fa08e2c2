"""The page where people judge, in a real browser, by keyboard alone; its server is killed once."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from tests.helpers.browser import OVER
from tests.helpers.crash import PATIENCE
from tests.helpers.labelling import sample_at, serving
from zelo_ray.files.labels import answers_in

pytestmark = pytest.mark.nightly

MAIN = "import sys; from zelo_ray.cli import main; sys.exit(main())"
TEXT = "document.getElementById('{}')?.textContent"
SHOWN = "document.getElementById('{}')?.hidden === false"
IDLE = "typeof busy !== 'undefined' && !busy"  # not while the page is loaded anew
CODES = {"Enter": (13, "\r"), "Backspace": (8, ""), "Tab": (9, "")}


class Serving:
    """``zelo-ray label`` in a process of its own."""

    def __init__(self, out, *words):
        command = [sys.executable, "-c", MAIN, "label", "--out", str(out), "--no-browser", *words]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        self.process = subprocess.Popen(
            command, env={**os.environ, "PYTHONUNBUFFERED": "1"}, **pipes
        )
        self.told = []
        for line in self.process.stdout:
            self.told.append(line)
            if found := re.match(r"(http://127\.0\.0\.1:\d+/\S*)", line):
                self.url = found[1]
                break
        else:
            raise AssertionError("".join(self.told))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def end(self, how):
        self.process.send_signal(how)
        return self.process.communicate(timeout=PATIENCE)[0]


async def press(tab, key):
    code, text = CODES.get(key, (ord(key.upper()) if len(key) == 1 else 0, key))
    about = {"key": key, "windowsVirtualKeyCode": code}
    await tab.call("Input.dispatchKeyEvent", type="keyDown", text=text, **about)
    await tab.call("Input.dispatchKeyEvent", type="keyUp", **about)


async def enter(tab, url, name):
    await tab.call("Page.navigate", url=url)
    await tab.until(f"location.href === '{url}' && document.activeElement?.id === 'name'")
    for key in name:
        await press(tab, key)
    await press(tab, "Enter")
    await tab.until(SHOWN.format("judge"))


async def judge(tab, key):
    """Press a key, and wait until another document is shown; what was seen."""
    seen = await tab.run(TEXT.format("document"))
    told = await tab.run(TEXT.format("progress"))
    await press(tab, key)
    await tab.until(f"{TEXT.format('progress')} !== {json.dumps(told)} && {IDLE}")
    return seen


def test_twenty_labels_by_keyboard_with_a_kill_in_the_middle(browser, tmp_path):
    out = sample_at(tmp_path / "labels", 20)
    given, keys = {}, "0123u" * 4

    async def visit(tab):
        with Serving(out) as first:
            await enter(tab, first.url, "Ann")
            for key in keys[:9]:
                given[await judge(tab, key)] = key
            await judge(tab, "z")  # the ninth is open again, and is said to be
            assert "You had said: 3" in await tab.run(TEXT.format("notice"))
            given[await judge(tab, "2")] = "2"
            given[await judge(tab, keys[9])] = keys[9]
            first.end(signal.SIGKILL)
        waiting = await tab.run(TEXT.format("document"))
        await press(tab, "1")
        await tab.until(f"{TEXT.format('notice')}?.includes('not saved yet')")
        with Serving(out) as second:
            assert second.url == first.url
            await tab.until(f"{TEXT.format('progress')}?.startsWith('11 of 20') && {IDLE}")
            given[waiting] = "1"
            for key in keys[11:]:
                given[await judge(tab, key)] = key
            await tab.until(SHOWN.format("done"))
            told = second.end(signal.SIGINT)
        assert "Judged 20 of 20 documents" in told
        assert second.process.returncode == 0
        await tab.until(f"{TEXT.format('notice')}?.includes('does not answer')")

    browser.visit(visit)
    assert len(given) == 20  # no document was shown twice, but for the one taken back
    wanted = {
        f"doc-{text.split()[1]}": None if key == "u" else float(key) for text, key in given.items()
    }
    assert {ids[1]: by["Ann"].value for ids, by in answers_in(str(out)).items()} == wanted


def test_the_page_fits_a_phone_and_a_desk_and_shows_markup_as_text(browser, tmp_path):
    evil = "<img src=x onerror='window.pwned=1'>"
    text = f"{evil} <script>window.pwned=1</script> {'long ' * 4000}"
    out = sample_at(tmp_path / "labels", 3, text=text)
    lowest = "Math.max(...[...document.querySelectorAll('#grades button')].map((each) => "

    async def visit(tab):
        with serving(out) as (_, url):
            await enter(tab, url, "Ann")
            for width, height in ((390, 800), (1400, 900)):
                await tab.resize(width, height)
                await tab.until(f"{OVER} <= 0")
                assert await tab.run("document.documentElement.scrollHeight - innerHeight") <= 0
                below = f"{lowest}each.getBoundingClientRect().bottom)) - innerHeight"
                assert await tab.run(below) <= 0
                assert await tab.run("document.getElementById('document').clientHeight") > 200
            assert evil in await tab.run(TEXT.format("document"))
            assert await tab.run("typeof window.pwned") == "undefined"
            assert await tab.run("document.querySelectorAll('img').length") == 0
            assert "doc-" not in await tab.run("document.documentElement.outerHTML")
            await press(tab, "Tab")
            assert await tab.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
            asked = {each for each in tab.requests if each.startswith(("http", "ws"))}
            assert all(each.startswith(url.partition("?")[0]) for each in asked)
            assert not tab.complaints

    browser.visit(visit)
