"""A headless browser, driven by Debian's chromedriver through the WebDriver protocol (W3C, WebDriver Level 2)."""

import json
import os
import re
import select
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

START_TIMEOUT_S = 30
COMMAND_TIMEOUT_S = 120
PORT = re.compile(r"started successfully on port (\d+)")
# Nothing of the browser's own goes into the network either.
OPTIONS = ("--headless", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
           "--disable-component-update", "--disable-sync", "--no-first-run", "--host-resolver-rules=MAP * ~NOTFOUND")


class Missing(Exception):
    """There is no browser, or it does not start here; the text says what to do."""


class Browser:
    """One page after the other, in a session that ends with the block."""

    def __init__(self):
        self.driver = self.session = None
        self.scratch = tempfile.TemporaryDirectory(prefix="weft-browser-")

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_):
        self._stop()

    def show(self, path, theme, width, height=900):
        """Opens a file with what a reader prefers, in a window of this size."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._control("Emulation.setDeviceMetricsOverride", size)
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self._control("Emulation.setEmulatedMedia", {"features": features})
        self.complaints(), self.requests()
        self._command("POST", "/url", {"url": "file://" + os.path.abspath(path)})

    def run(self, script):
        """What a function's body returns in the page."""
        return self._command("POST", "/execute/sync", {"script": script, "args": []})

    def complaints(self):
        """What the console has said since it was asked last."""
        return [entry["message"] for entry in self._log("browser")]

    def requests(self):
        """The addresses that were loaded since they were asked for last."""
        events = [json.loads(entry["message"])["message"] for entry in self._log("performance")]
        sent = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
        return [one["request"]["url"] for one in sent]

    def picture(self):
        """The whole page as the base64 text of a PNG."""
        return self._control("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": True})["data"]

    def _start(self):
        program = shutil.which("chromedriver")
        if not program:
            raise Missing("there is no chromedriver; as root: apt-get install chromium chromium-driver")
        self.driver = subprocess.Popen([program, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                       start_new_session=True)
        self.port = self._await_port()
        options = {"args": [*OPTIONS, *(["--no-sandbox"] if os.geteuid() == 0 else []),
                            f"--user-data-dir={self.scratch.name}"]}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options,
                  "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        try:
            answer = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        except OSError as error:
            raise Missing(f"chromium does not start: {error}") from error
        self.session = answer["sessionId"]

    def _await_port(self):
        end, said = time.monotonic() + START_TIMEOUT_S, b""
        while time.monotonic() < end:
            if select.select([self.driver.stdout], [], [], 0.2)[0]:
                part = os.read(self.driver.stdout.fileno(), 4096)
                said += part
                found = PORT.search(said.decode(errors="replace"))
                if found:
                    return int(found[1])
                if not part:
                    break
        raise Missing(f"chromedriver does not start: {said.decode(errors='replace').strip()[-200:]}")

    def _stop(self):
        if self.session:
            try:
                self._ask("DELETE", f"/session/{self.session}", None)
            except OSError:
                pass  # It has ended by itself.
        if self.driver:
            self.driver.kill()
            self.driver.wait()
        self.scratch.cleanup()

    def _control(self, command, parameters):
        return self._command("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def _log(self, kind):
        return self._command("POST", "/se/log", {"type": kind})

    def _command(self, method, path, body):
        return self._ask(method, f"/session/{self.session}{path}", body)

    def _ask(self, method, path, body):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, method=method,
                                         headers={"Content-Type": "application/json"})
        # A proxy of the environment has no part in this.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=COMMAND_TIMEOUT_S) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            said = json.loads(error.read() or b"{}").get("value") or {}
            raise OSError(said.get("message", str(error)).split("\n")[0]) from error
