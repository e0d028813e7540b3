"""chrome.py: headless Chromium over its debugging pipe, with nothing but Python's own library.

Messages are JSON, each ended by a zero byte, on descriptors 3 (to the browser) and 4 (from it).
"""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time


def find():
    """The browser's program, or None."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            return name
    return None


class Page:
    """One tab. Collects what a clean page must not have: requests, errors, dialogs."""

    def __init__(self, width=1280, height=900):
        to_child, self.to = os.pipe()
        self.back, from_child = os.pipe()
        self.home = tempfile.mkdtemp(prefix="attn-browser-")

        def place():
            # By way of high numbers, so that neither is overwritten before it is copied.
            a, b = os.dup2(to_child, 100), os.dup2(from_child, 101)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            [find(), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             "--no-first-run", "--disable-background-networking", "--disable-dev-shm-usage",
             "--remote-debugging-pipe", f"--window-size={width},{height}",
             f"--user-data-dir={self.home}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=place, pass_fds=(3, 4))
        os.close(to_child)
        os.close(from_child)
        self.buffer, self.number, self.session = b"", 0, None
        self.requests, self.errors, self.dialogs = [], [], []
        target = [t for t in self.send("Target.getTargets")["targetInfos"]
                  if t["type"] == "page"][0]
        self.session = self.send("Target.attachToTarget", targetId=target["targetId"],
                                 flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(domain + ".enable")
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
        shutil.rmtree(self.home, ignore_errors=True)

    def _read(self, until):
        while b"\0" not in self.buffer:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.back], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            data = os.read(self.back, 1 << 20)
            if not data:
                raise EOFError("the browser ended")
            self.buffer += data
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def _event(self, message):
        method, params = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"][:200])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(params["exceptionDetails"])[:500])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.errors.append(json.dumps(params["args"])[:500])
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])
        elif method == "Page.javascriptDialogOpening":
            self.dialogs.append(params["message"])
            self.send("Page.handleJavaScriptDialog", accept=False)

    def send(self, method, timeout=60, **params):
        self.number += 1
        number, message = self.number, {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        until = time.monotonic() + timeout
        while True:
            answer = self._read(until)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._event(answer)

    def run(self, script):
        """The value of a JavaScript expression; promises are awaited."""
        result = self.send("Runtime.evaluate", expression=script, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"])[:500])
        return result["result"].get("value")

    def wait(self, condition, seconds=20):
        """Until an expression is true; returns the seconds it took."""
        start = time.monotonic()
        while not self.run(condition):
            if time.monotonic() - start > seconds:
                raise TimeoutError(condition)
            time.sleep(0.01)
        return time.monotonic() - start

    def open(self, path):
        self.requests, self.errors, self.dialogs = [], [], []
        self.send("Page.navigate", url="file://" + os.path.abspath(path))
        self.wait("document.readyState === 'complete'")

    def mouse(self, kind, x, y, **more):
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def move(self, x, y):
        self.mouse("mouseMoved", x, y)

    def click(self, x, y):
        self.move(x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)

    def key(self, key, text=""):
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key,
                      **({"text": text} if text and kind == "keyDown" else {}))

    def theme(self, name):
        self.send("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": name}])

    def screenshot(self, path=None):
        data = base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"])
        if path:
            with open(path, "wb") as file:
                file.write(data)
        return data
