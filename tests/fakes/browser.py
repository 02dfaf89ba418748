"""Headless Chromium, driven over a pipe by the DevTools protocol: no port, no network, no further package."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


class Page:
    """One tab; a context manager that ends the browser.

    Args:
        folder: An empty folder for the browser's profile; downloads go into `downloads` of it.
        width: Width of the window in CSS pixels.
        dark: Whether the reader prefers dark colors.
    """

    def __init__(self, folder: Path, width: int = 1280, *, dark: bool = False) -> None:
        self.downloads = folder / "downloads"
        self.requests: list[str] = []
        self.errors: list[str] = []
        to_browser, self._to = os.pipe()
        self._from, from_browser = os.pipe()
        command = [
            *("bash", "-c", f'exec "$@" 3<&{to_browser} 4>&{from_browser}', "bash", str(CHROMIUM), *_FLAGS),
            *("--remote-debugging-pipe", f"--user-data-dir={folder / 'profile'}", "about:blank"),
        ]
        self._process = subprocess.Popen(
            command,
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._pending = b""
        self._number = 0
        self._session = ""
        self._loaded = False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            **{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 700},
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(self.downloads))

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self._to)
        os.close(self._from)
        self._process.terminate()
        self._process.wait()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method and return its result; events on the way are noted."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return dict(answer["result"])

    def open(self, address: str) -> None:
        """Open an address and wait until it is loaded; a change of the hash alone loads nothing."""
        self._loaded = False
        if "loaderId" in self.call("Page.navigate", url=address):
            while not self._loaded:
                self._read()

    def run(self, script: str) -> Any:
        """Return the value of a JavaScript expression, awaited where it is a promise."""
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def settle(self) -> None:
        """Wait until what was typed is worked off and drawn."""
        self.run(
            "new Promise(r => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(r)), 150))"
        )

    def screenshot(self, path: Path, height: int = 900) -> None:
        """Write what the window shows as PNG."""
        width = self.run("innerWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        data = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)[
            "data"
        ]
        path.write_bytes(base64.b64decode(data))

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._pending:
            data = os.read(self._from, 1 << 16)
            assert data, "the browser has ended"
            self._pending += data
        line, self._pending = self._pending.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, about: dict[str, Any]) -> None:
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(str(about["exceptionDetails"]))
        elif method == "Log.entryAdded" and about["entry"]["level"] == "error":
            self.errors.append(about["entry"]["text"])


def data_of(page: str) -> Any:
    """Return the data that a page holds for its script."""
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(data)
