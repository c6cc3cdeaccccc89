"""A real browser for tests: the system's Chromium, by the pipe of its DevTools.

https://chromedevtools.github.io/devtools-protocol/: each message is JSON and a NUL.
"""

from __future__ import annotations

import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import time
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
# No network of its own, and what a test machine needs: root, little /dev/shm.
FLAGS = (
    *("--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu"),
    *("--disable-dev-shm-usage", "--disable-background-networking", "--no-first-run"),
    "--hide-scrollbars",  # pictures have none either
)
SECONDS = 60


def program() -> str | None:
    """The path of the browser; None where there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Page:
    """A page of a browser of its own. Use it in a `with` block."""

    def __init__(self, profile: pathlib.Path, width: int, *, dark: bool = False):
        theirs_in, self._write = os.pipe()
        self._read, theirs_out = os.pipe()

        def descriptors() -> None:  # 3 and 4, as Chromium wants them
            kept = os.dup(theirs_in), os.dup(theirs_out)
            for source, target in zip(kept, (3, 4), strict=True):
                os.dup2(source, target)

        self._process = subprocess.Popen(
            [str(program()), *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=descriptors,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._number, self._rest, self._session = 0, b"", None
        self.errors: list[str] = []  # of scripts, and what the policy refused
        targets = self.call("Target.getTargets")["targetInfos"]
        (target,) = [t["targetId"] for t in targets if t["type"] == "page"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], SECONDS)
            part = os.read(self._read, 1 << 20) if ready else b""
            assert part, "the browser says nothing more"
            self._rest += part
        raw, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(raw)
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(message["params"]))
        if message.get("method") == "Log.entryAdded":
            self.errors.append(message["params"]["entry"]["text"])
        return message

    def open(self, address: str) -> None:
        self.call("Page.navigate", url=address)
        self.wait("document.readyState === 'complete'")

    def evaluate(self, script: str) -> Any:
        result = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait(self, condition: str) -> None:
        """Until a script gives true."""
        until = time.monotonic() + SECONDS
        while not self.evaluate(condition):
            assert time.monotonic() < until, condition
            time.sleep(0.05)

    def type(self, text: str) -> None:
        """Into what has the focus, as a person or a clipboard would."""
        self.call("Input.insertText", text=text)

    def press(self, key: str, code: int, modifiers: int = 0) -> None:
        """modifiers: 2 is Ctrl, 8 is Shift."""
        text = {"Tab": "", "Enter": "\r"}.get(key, key) if modifiers != 2 else ""
        named = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                modifiers=modifiers,
                **({"text": text} if text and kind == "keyDown" else {}),
                **named,
            )

    def screenshot(self, path: pathlib.Path) -> None:
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))
