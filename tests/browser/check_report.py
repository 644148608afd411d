#!/usr/bin/env python3
"""Opens a report, or a profile, in headless Chromium as a reader would, and looks at what is drawn.

    tests/browser/check_report.py PAGE.html [SHOTS]

At a phone's and a desktop's width, light and dark: curves, matrix and images, or timeline and
tables, have a size on the screen, nothing is wider than the window, text stands out from what is
behind it, no error is logged and nothing is loaded. Pictures of the page go to the folder SHOTS.
"""

import base64
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPTS = Path(__file__).parent
WINDOWS = {"phone": (390, 844), "desktop": (1280, 900)}
SCHEMES = ("light", "dark")


class Browser:
    """Chromium by its DevTools protocol over a pipe: messages of JSON that end with a NUL."""

    def __init__(self, program, profile):
        read_commands, self._commands = os.pipe()
        self._answers, write_answers = os.pipe()
        # Chromium reads from descriptor 3 and writes to 4.
        start = f'exec 3<&{read_commands} 4>&{write_answers}; exec "$@"'
        arguments = [
            *("--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu"),
            *("--hide-scrollbars", "--no-first-run", f"--user-data-dir={profile}"),
        ]
        self._process = subprocess.Popen(
            ["bash", "-c", start, "bash", program, *arguments],
            pass_fds=(read_commands, write_answers),
            stderr=subprocess.DEVNULL,
        )
        os.close(read_commands)
        os.close(write_answers)
        self._buffer = b""
        self._count = 0
        self._session = None
        self.events = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]

    def close(self):
        self._session = None
        self.call("Browser.close")
        self._process.wait(timeout=20)

    def _receive(self):
        while b"\0" not in self._buffer:
            data = os.read(self._answers, 1 << 20)
            if not data:
                raise RuntimeError("Chromium went away")
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def call(self, method, **params):
        self._count += 1
        command = {"id": self._count, "method": method, "params": params}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        while True:
            message = self._receive()
            if message.get("id") == self._count:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                return message["result"]
            self.events.append(message)

    def wait_for(self, event):
        while not any(e.get("method") == event for e in self.events):
            self.events.append(self._receive())

    def evaluate(self, script):
        result = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"]["exception"]["description"])
        return result["result"].get("value")


def look_at(browser, page, name, size, scheme, shots):
    width, height = size
    browser.call(
        "Emulation.setDeviceMetricsOverride",
        **{"width": width, "height": height, "deviceScaleFactor": 2, "mobile": name == "phone"},
    )
    browser.call(
        "Emulation.setEmulatedMedia",
        features=[{"name": "prefers-color-scheme", "value": scheme}],
    )
    browser.events.clear()
    browser.call("Page.navigate", url=page.as_uri())
    browser.wait_for("Page.loadEventFired")
    browser.evaluate(SCRIPTS.joinpath("look.js").read_text())
    is_profile = browser.evaluate("document.querySelector('#timeline') !== null")
    script = "look_profile.js" if is_profile else "look_report.js"
    found = browser.evaluate(SCRIPTS.joinpath(script).read_text())
    if shots:
        shot = browser.call("Page.captureScreenshot", captureBeyondViewport=True)
        (shots / f"{page.stem}-{name}-{scheme}.png").write_bytes(base64.b64decode(shot["data"]))

    problems = list(found["problems"])
    for event in browser.events:
        params = event.get("params", {})
        if event.get("method") == "Network.requestWillBeSent":
            url = params["request"]["url"]
            if url != page.as_uri() and not url.startswith("data:"):
                problems.append(f"asks for {url}")
        if event.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
            problems.append(f"logs {json.dumps(params)[:300]}")
    counts = {k: v for k, v in found.items() if k != "problems"}
    print(f"{name} {width}x{height} {scheme}: {counts}")
    return [f"{name} {scheme}: {problem}" for problem in problems]


def main():
    page = Path(sys.argv[1]).resolve()
    shots = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    if shots:
        shots.mkdir(parents=True, exist_ok=True)
    program = shutil.which("chromium")
    if not program:
        sys.exit("no chromium (Debian: chromium)")
    problems = []
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(program, profile)
        for domain in ("Page", "Network", "Runtime", "Log"):
            browser.call(f"{domain}.enable")
        for (name, size), scheme in itertools.product(WINDOWS.items(), SCHEMES):
            problems += look_at(browser, page, name, size, scheme, shots)
        browser.close()
    for problem in problems:
        print(f"FAILED {problem}")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
