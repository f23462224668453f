"""The page: whole, safe, readable without a network, and drawn by a real browser where there is one."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest

import fastmcmd as fm

pytest.importorskip("matplotlib")

N = 200
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
HOSTILE = "<script>alert('x')</script> & \"quoted\""


@pytest.fixture
def evaluations(rng):
    x = rng.uniform(-2, 2, (N, 2))
    y = x[:, 0] + 0.3 * rng.normal(size=N)
    return {
        "right": fm.evaluate(y, fm.Gaussian(x[:, 0], 0.3), x, n_boot=5, by=np.sign(x[:, 1])),
        HOSTILE: fm.evaluate(y, fm.Gaussian(x[:, 0], 0.9), x),
    }


class Page(HTMLParser):
    """What a page consists of; fails where tags are not closed in order."""

    VOID = {"meta", "link", "br", "image", "use", "path", "img"}

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.sources, self.cells = [], [], [], [], []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if "id" in found:
            self.ids.append(found["id"])
        for name in ("href", "src", "xlink:href"):
            if name in found:
                self.sources.append(found[name])
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th", "button"):
            self.cells.append(data)


def test_a_page_of_two_models(evaluations, tmp_path):
    path = tmp_path / "report.html"
    fm.compare(evaluations).report(path, "Title <1>")
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert len(page.ids) == len(set(page.ids))  # also of the parts of pictures
    assert "<title>Title &lt;1&gt;</title>" in text
    # Nothing comes from elsewhere, and nothing from the data is taken as HTML.
    assert all(source.startswith(("#", "data:")) for source in page.sources), page.sources
    assert "@import" not in text
    assert "url(http" not in text
    assert "<script>alert" not in text
    assert HOSTILE in page.cells
    assert text.count("<svg") == 2 * 6 + 2  # six pictures and a witness for each model
    for found in evaluations.values():
        for one in found.measured:
            assert one.label in page.cells
    worst = int(np.argmax(evaluations["right"].rows["cce"]))
    assert f"{worst:,}" in page.cells
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_vector_outputs_and_no_inputs(rng, tmp_path):
    """Few parts apply; the page is still whole."""
    y = rng.normal(size=(N, 2))
    fm.evaluate(y, fm.Gaussian(np.zeros((N, 2)), 1.0)).report(tmp_path / "a.html")
    fm.evaluate(y, fm.Gaussian(np.zeros((N, 2)), 1.0), y).report(tmp_path / "b.html")
    fm.evaluate(y[:, 0], rng.normal(size=(N, 8))).report(tmp_path / "c.html", name="draws")
    counts = rng.poisson(3.0, N)
    fm.evaluate(counts, fm.Poisson(np.full(N, 3.0)), y[:, 0]).report(tmp_path / "d.html")
    for name in "abcd":
        Page((tmp_path / f"{name}.html").read_text(encoding="utf-8"))


def test_rows_left_out(rng, tmp_path):
    """Points listed are those of the rows given, also where some were left out."""
    x = rng.normal(size=N)
    y = x + rng.normal(size=N)
    y[:50] = np.nan
    found = fm.evaluate(y, (x, 1.0), x, nan_policy="omit")
    found.report(tmp_path / "r.html")
    cells = Page((tmp_path / "r.html").read_text(encoding="utf-8")).cells
    worst = int(np.nanargmax(found.rows["cce"]))
    at = cells.index(f"{worst:,}")
    assert float(cells[at + 1]) == pytest.approx(np.nanmax(found.rows["cce"]), rel=1e-4)
    assert float(cells[at + 2]) == pytest.approx(y[worst], rel=1e-4)
    assert float(cells[at + 3]) == pytest.approx(x[worst], rel=1e-4)


def test_bad_targets(evaluations, tmp_path):
    with pytest.raises(ValueError, match=r"ends in \.html is needed"):
        evaluations["right"].report(tmp_path / "report.pdf")
    with pytest.raises(FileNotFoundError):
        evaluations["right"].report(tmp_path / "nowhere" / "report.html")


def test_a_file_is_replaced_whole(evaluations, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("kept")

    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("fastmcmd.report.sections.svg", fail)
    with pytest.raises(KeyboardInterrupt):
        evaluations["right"].report(path)
    assert path.read_text() == "kept"
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here: the page is not opened")
@pytest.mark.parametrize("dark", [False, True])
def test_in_a_browser(evaluations, tmp_path, dark):
    """It opens without a word in the console, sorts its tables, and shows its pictures."""
    path = tmp_path / "report.html"
    fm.compare(evaluations).report(path)
    # What is looked at once the page has run is written into the page itself.
    look = """<script>
    const head = document.querySelector("th button"); head.click();
    const down = head.closest("table").tBodies[0].rows[0].cells[0].dataset.value;
    head.click();
    const up = head.closest("table").tBodies[0].rows[0].cells[0].dataset.value;
    const wide = [...document.querySelectorAll("figure svg")].filter(
      (svg) => svg.getBoundingClientRect().width < 200 || svg.getBoundingClientRect().height < 100);
    document.title = [Number(down) > Number(up), wide.length,
      document.documentElement.scrollWidth <= window.innerWidth,
      getComputedStyle(document.body).backgroundColor].join("|");
    </script></body>"""
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("</body>", look), encoding="utf-8")
    done = subprocess.run(
        [
            BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--enable-logging=stderr", "--v=0", f"--user-data-dir={tmp_path / 'profile'}",
            "--window-size=420,900", *(["--force-dark-mode"] if dark else []), "--dump-dom",
            path.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )  # fmt: skip
    assert "CONSOLE" not in done.stderr, done.stderr
    sorts, small, fits, colour = re.search(r"<title>(.*?)</title>", done.stdout)[1].split("|")
    assert (sorts, small, fits) == ("true", "0", "true")
    red = int(re.search(r"\d+", colour)[0])
    assert (red < 128) == dark
