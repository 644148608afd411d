#!/usr/bin/env python3
"""Looks at the reference of the C++ interface, in its files and in headless Chromium.

    tests/browser/check_reference.py build/reference/html [SHOTS]

Every namespace of the public headers has a page, every link leads to a place that is there. The
guide, the list of namespaces, a namespace and a class, at a phone's and a desktop's width, have
their text on the screen, are not wider than it and log no error. Pictures of them go to SHOTS.
"""

import base64
import html
import itertools
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path
from urllib.parse import unquote

from check_report import WINDOWS, Browser

LOOKED_AT = {  # a page, and what is to be read on it
    "index.html": "An afternoon's tour",
    "namespaces.html": "mica",
    "namespacemica_1_1nn.html": "Sequential",
    "classmica_1_1Tensor.html": "accessor",
}
MEASURES = """(() => {
  const text = document.querySelector("#doc-content");
  const wide = [...text.querySelectorAll("*")].filter((e) => {
    if (e.closest("div.contents, div.header") !== e.parentElement) return false;
    const box = e.getBoundingClientRect();
    return box.width > 0 && (box.left < -0.5 || box.left > innerWidth);
  });
  return {
    words: text.innerText,
    width: text.getBoundingClientRect().width,
    scrolls: text.scrollWidth - text.clientWidth,
    page: document.documentElement.scrollWidth - innerWidth,
    wide: wide.map((e) => e.outerHTML.slice(0, 80)),
  };
})()"""


def namespaces(headers):
    found = set()
    for header in headers.rglob("*.h"):
        for name in re.findall(r"^namespace (mica[\w:]*) \{", header.read_text(), re.MULTILINE):
            found.add(name)
    return {name for name in found if "detail" not in name}


def pages_missing(folder):
    names = namespaces(folder.parent / "include")
    assert len(names) > 15, names
    file_of = {name: f"namespace{name.replace('::', '_1_1')}.html" for name in names}
    return [f"{name} has no page" for name, file in file_of.items() if not (folder / file).exists()]


def links_broken(folder):
    pages = {page.name: page.read_text() for page in folder.glob("*.html")}
    places = {
        name: set(re.findall(r'\b(?:id|name)="([^"]+)"', text)) for name, text in pages.items()
    }
    broken = set()
    for name, text in pages.items():
        for link in re.findall(r'\b(?:href|src)="([^"]+)"', text):
            target, _, place = unquote(html.unescape(link)).partition("#")
            if ":" in target:  # of the web
                continue
            target = target or name
            if target in pages:
                # Doxygen points to the list of a class's nested ones where all are private, too.
                if place and place not in places[target] | {"nested-classes"}:
                    broken.add(f"{name}: there is no #{place} in {target}")
            elif not (folder / target).exists():
                broken.add(f"{name}: there is no {target}")
    return sorted(broken)


def look_at(browser, page, words, window, shots):
    width, height = WINDOWS[window]
    browser.call(
        "Emulation.setDeviceMetricsOverride",
        **{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": window == "phone"},
    )
    browser.events.clear()
    browser.call("Page.navigate", url=page.as_uri())
    browser.wait_for("Page.loadEventFired")
    found = browser.evaluate(MEASURES)
    if shots:
        shot = browser.call("Page.captureScreenshot")
        picture = shots / f"reference-{page.stem}-{window}.png"
        picture.write_bytes(base64.b64decode(shot["data"]))
    problems = [f"beside the window: {element}" for element in found["wide"]]
    if words not in found["words"]:
        problems.append(f"does not show {words!r}")
    if found["page"] > 0 or found["scrolls"] > 0:
        problems.append(f"is {max(found['page'], found['scrolls'])} wider than the window")
    if found["width"] < min(0.95 * width, 600):
        problems.append(f"leaves {found['width']} of {width} for the text")
    problems += [
        f"logs {json.dumps(event['params'])[:300]}"
        for event in browser.events
        if event.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded")
    ]
    return [f"{page.name}, {window}: {problem}" for problem in problems]


def main():
    folder = Path(sys.argv[1]).resolve()
    shots = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    if shots:
        shots.mkdir(parents=True, exist_ok=True)
    program = shutil.which("chromium")
    if not program:
        sys.exit("no chromium (Debian: chromium)")
    problems = pages_missing(folder) + links_broken(folder)
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(program, profile)
        for domain in ("Page", "Runtime", "Log"):
            browser.call(f"{domain}.enable")
        for (name, words), window in itertools.product(LOOKED_AT.items(), WINDOWS):
            problems += look_at(browser, folder / name, words, window, shots)
        browser.close()
    for problem in problems:
        print(f"FAILED {problem}")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
