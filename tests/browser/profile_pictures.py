#!/usr/bin/env python3
"""Runs the programs of docs/profiling.md and takes pictures of their profiles' pages, in Chromium.

    tests/browser/profile_pictures.py [FOLDER]      docs/images without one

Of the programs that begin with `# step N` the timeline of a few steps, of the last one the layers.
"""

import base64
import re
import shutil
import sys
import tempfile
from pathlib import Path

from check_report import Browser

PAGE = Path(__file__).resolve().parents[2] / "docs" / "profiling.md"
PROGRAM = re.compile(r"^```python\n# step (\d)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Two steps, or as much of the one that holds nine.
SHOW = "show(steps[0], count > 2 ? steps[2] : steps[0] + (steps[1] - steps[0]) * 2 / 9)"
MOST_BYTES = 150_000


def picture(browser, page, selector):
    browser.events.clear()
    browser.call("Page.navigate", url=page.as_uri())
    browser.wait_for("Page.loadEventFired")
    browser.evaluate(SHOW)
    box = browser.evaluate(
        f"(({{x, y, width, height}}) => ({{x, y: y + scrollY, width, height, scale: 1}}))"
        f"(document.querySelector('{selector}').getBoundingClientRect())"
    )
    shot = browser.call("Page.captureScreenshot", clip=box, captureBeyondViewport=True)
    return base64.b64decode(shot["data"])


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE.parent / "images"
    folder.mkdir(parents=True, exist_ok=True)
    chromium = shutil.which("chromium")
    if not chromium:
        sys.exit("no chromium (Debian: chromium)")
    programs = PROGRAM.findall(PAGE.read_text())
    with tempfile.TemporaryDirectory() as scratch:
        browser = Browser(chromium, scratch)
        browser.call("Page.enable")
        browser.call(
            "Emulation.setDeviceMetricsOverride",
            **{"width": 960, "height": 900, "deviceScaleFactor": 1.5, "mobile": False},
        )
        light = [{"name": "prefers-color-scheme", "value": "light"}]
        browser.call("Emulation.setEmulatedMedia", features=light)
        for number, program in programs:
            names = {}
            exec(compile(program, f"step {number}", "exec"), names)
            page = Path(scratch) / f"step_{number}.html"
            names["p"].report(page)
            last = number == programs[-1][0]
            image = picture(browser, page, "#layers" if last else "#timeline")
            if len(image) > MOST_BYTES:
                sys.exit(f"the picture of step {number} has {len(image)} bytes")
            (folder / f"profile_{number}.png").write_bytes(image)
            print(f"step {number}: {len(image)} bytes")
        browser.close()


if __name__ == "__main__":
    main()
