"""A headless browser for pages that the package writes."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


def browse(path, look, *options):
    """Open a page after adding a script, which its policy then allows; return the title, split at "|"."""
    text = path.read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(look.encode()).digest()).decode()
    text = text.replace("script-src ", f"script-src 'sha256-{digest}' ", 1)
    path.write_text(text.replace("</body>", f"<script>{look}</script></body>"), encoding="utf-8")
    process = subprocess.run(
        [
            BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--enable-logging=stderr", "--v=0", f"--user-data-dir={path.parent / 'profile'}",
            *options, "--dump-dom", path.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )  # fmt: skip
    assert "CONSOLE" not in process.stderr, process.stderr
    return re.search(r"<title>(.*?)</title>", process.stdout, re.DOTALL)[1].split("|")
