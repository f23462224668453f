"""The page is complete, safe and readable offline; a real browser draws it if one is installed."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest
import scipy.stats
from browser import BROWSER, browse

import fastmcmd as fm
from fastmcmd.evaluation.measures import ALL_MEASURES
from fastmcmd.inference.comparison import congruence_losses
from fastmcmd.report.numbers import READING
from fastmcmd.report.pictures import svg

pytest.importorskip("matplotlib")

N = 200
HOSTILE = "_<script>alert('x')</script> & \"quoted\" $\\x$ 統"


@pytest.fixture(scope="module")
def evaluations():
    """Data for the reports, which no test changes."""
    rng = np.random.default_rng(20240512)
    x = rng.uniform(-2, 2, (N, 2))
    y = x[:, 0] + 0.3 * rng.normal(size=N)
    return {
        "right": fm.evaluate(y, fm.Gaussian(x[:, 0], 0.3), x, n_boot=5, by=np.sign(x[:, 1])),
        HOSTILE: fm.evaluate(y, fm.Gaussian(x[:, 0], 0.9), x),
    }


class Page(HTMLParser):
    """Parser of a page's parts; fails if tags are not closed in order."""

    VOID = {"meta", "link", "br", "image", "use", "path", "img"}

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.sources, self.cells = [], [], [], [], []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        attribute_map = dict(attributes)
        if "id" in attribute_map:
            self.ids.append(attribute_map["id"])
        for name in ("href", "src", "xlink:href"):
            if name in attribute_map:
                self.sources.append(attribute_map[name])
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


@pytest.mark.slow
@pytest.mark.usefixtures("unpainted")
def test_a_report_uses_the_tests_of_its_comparison(evaluations, tmp_path, monkeypatch):
    """Paired tests take as long as all evaluations: the page does not repeat them."""
    tests = []
    monkeypatch.setattr(
        "fastmcmd.evaluation.pairs.congruence_losses",
        lambda *models: tests.append(models) or congruence_losses(*models),
    )
    comparison = fm.compare(evaluations)
    assert comparison.pairs.of("mean_cce")
    comparison.report(tmp_path / "r.html")
    assert str(comparison)
    assert len(tests) == 1


@pytest.mark.usefixtures("unpainted")
def test_a_page_has_one_cce_for_each_model(evaluations, tmp_path):
    """A root mean square that rests on landmarks stood below the mean of the same CCE."""
    one = evaluations["right"]
    text = one.report(tmp_path / "one.html").read_text()
    assert one.cce_line in text
    assert "root mean square," not in text


@pytest.mark.slow
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
    assert re.search(r"<text[^>]*> ?_&lt;script", text)  # in the legend
    # Reliability, errors, sharpness and CCE (twice) of both in one; then PIT, CCE and NLL over the
    # plane and witness for each; the outcomes.
    assert text.count("<svg") == 5 + 2 * 4 + 1
    for evaluation in evaluations.values():
        for one in evaluation.measured:
            assert any(
                cell.startswith(one.label) for cell in page.cells
            )  # some name the level, too
    worst = int(np.argmax(evaluations["right"].rows["cce"]))
    assert f"{worst:,}" in page.cells
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.slow
@pytest.mark.usefixtures("unpainted")
def test_vector_outputs_and_no_inputs(rng, tmp_path):
    """With few parts, the page is still complete."""
    y = rng.normal(size=(N, 2))
    fm.evaluate(y, fm.Gaussian(np.zeros((N, 2)), 1.0)).report(tmp_path / "a.html")
    fm.evaluate(y, fm.Gaussian(np.zeros((N, 2)), 1.0), y).report(tmp_path / "b.html")
    fm.evaluate(y[:, 0], rng.normal(size=(N, 8))).report(tmp_path / "c.html", name="draws")
    counts = rng.poisson(3.0, N)
    fm.evaluate(counts, fm.Poisson(np.full(N, 3.0)), y[:, 0]).report(tmp_path / "d.html")
    for name in "abcd":
        Page((tmp_path / f"{name}.html").read_text(encoding="utf-8"))


def cells_after(cells, text, count):
    """Return the cells that follow the first one with a text."""
    at = cells.index(text)
    return cells[at + 1 : at + 1 + count]


@pytest.mark.slow
@pytest.mark.usefixtures("unpainted")
def test_rows_left_out(rng, tmp_path):
    """The listed points are those of the given rows, even if some were left out."""
    x = rng.normal(size=N)
    y = x + rng.normal(size=N)
    y[:50] = np.nan
    evaluation = fm.evaluate(y, (x, 1.0), x, nan_policy="omit")
    places = np.stack([x, x], axis=1)
    evaluation.report(tmp_path / "r.html", projection=places)  # of all rows given
    evaluation.report(tmp_path / "r.html", projection=places[50:])  # of those used
    cells = Page((tmp_path / "r.html").read_text(encoding="utf-8")).cells
    worst = int(np.nanargmax(evaluation.rows["cce"]))
    cell_values = [float(cell) for cell in cells_after(cells, f"{worst:,}", 4)]
    expected = [np.nanmax(evaluation.rows["cce"]), x[worst], y[worst], x[worst]]
    np.testing.assert_allclose(cell_values, expected, rtol=1e-3)
    with pytest.raises(ValueError, match="x has 150, projection has 60"):
        evaluation.report(tmp_path / "r.html", projection=places[:60])


@pytest.mark.usefixtures("unpainted")
@pytest.mark.parametrize("counts", [False, True])
def test_the_witness_is_that_of_the_worst_point(rng, tmp_path, monkeypatch, counts):
    texts, encoder, _ = encoded_words(rng)
    mean = 1 + encoder(texts)[:, 0].astype(float)
    y = rng.poisson(mean) if counts else mean + 0.3 * rng.normal(size=N)
    prediction = fm.Poisson(mean) if counts else fm.Gaussian(mean, 0.5)
    evaluation = fm.evaluate(y, prediction, texts, encoder=encoder)
    witnesses = []
    monkeypatch.setattr("fastmcmd.report.points.witness", lambda *a, **k: witnesses.append((a, k)))
    evaluation.report(tmp_path / "r.html")
    (outputs, h, _), options = witnesses[0]
    worst = int(np.argmax(evaluation.rows["cce"]))
    np.testing.assert_allclose(
        h, evaluation.congruence.witness([texts[worst]], outputs)[0], atol=1e-9
    )
    assert options["outcome"] == y[worst]
    assert outputs.min() <= np.quantile(y, 0.01) < np.quantile(y, 0.99) <= outputs.max()
    assert not counts or (outputs == outputs.astype(int)).all()


def encoded_words(rng):
    """Return texts, an encoder of texts that counts calls, and its output for each text."""
    words = ("red", "green", "blue <i>", "yellow")
    texts = [" ".join(rng.choice(words, 3)) for _ in range(N)]
    requests = []

    def encoder(part):
        requests.append(len(part))
        return np.array([[text.count(word) for word in words] for text in part], dtype=np.float32)

    return texts, encoder, requests


@pytest.mark.slow
def test_encoded_inputs(rng, tmp_path):
    """The page lists texts; pictures and the witness use the encoder's output."""
    texts, encoder, requests = encoded_words(rng)
    x = encoder(texts)
    y = x[:, 0] + 0.3 * rng.normal(size=N)
    evaluation = fm.evaluate(y, (x[:, 0], 0.5), texts, encoder=encoder)
    same = fm.evaluate(y, (x[:, 0], 0.5), x)
    requests.clear()
    evaluation.report(tmp_path / "encoded.html")
    assert requests.count(N) == 1  # once for all pictures over inputs
    assert sum(requests) == N + 1  # and the worst point
    same.report(tmp_path / "same.html")
    text, plain = (
        (tmp_path / f"{n}.html").read_text(encoding="utf-8") for n in ("encoded", "same")
    )
    page = Page(text)
    worst = int(np.argmax(evaluation.rows["cce"]))
    assert cells_after(page.cells, f"{worst:,}", 3)[2] == texts[worst]
    assert "<i>" not in text
    assert "Inputs are shown after encoding." in text
    assert pictures_of(text) == pictures_of(plain)


def pictures_of(text):
    """Return the drawings of a page without the names of their parts."""
    pictures = re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)
    assert pictures
    return [re.sub(r"p\d+-[\w.-]+", "", one) for one in pictures]


@pytest.mark.slow
@pytest.mark.usefixtures("unpainted")
def test_inputs_as_lists_and_frames(rng, tmp_path):
    pandas = pytest.importorskip("pandas")
    x = rng.normal(size=(N, 2))
    y = x[:, 0] + rng.normal(size=N)
    frame = pandas.DataFrame(x, columns=["age", "<b>"])
    series = pandas.Series(y, index=[f"id {row}" for row in range(N)])
    evaluations = {
        "list": fm.evaluate(y, (x[:, 0], 1.0), x.tolist()),
        "frame": fm.evaluate(series, (x[:, 0], 1.0), frame),
        "array": fm.evaluate(y, (x[:, 0], 1.0), x),
    }
    for name, evaluation in evaluations.items():
        evaluation.report(tmp_path / f"{name}.html")
    texts = [
        (tmp_path / f"{n}.html").read_text(encoding="utf-8") for n in ("list", "frame", "array")
    ]
    assert pictures_of(texts[0]) == pictures_of(texts[1]) == pictures_of(texts[2])
    worst = int(np.argmax(evaluations["frame"].rows["cce"]))
    cells = Page(texts[1]).cells
    assert cells_after(cells, f"{worst:,}", 1) == [f"id {worst}"]
    at = cells.index("row")
    expected = ["row", "label", "CCE", "support", "age", "<b>", "outcome"]
    assert cells[at : at + 7] == expected


@pytest.mark.usefixtures("unpainted")
def test_frames_that_are_encoded(rng, tmp_path):
    """The columns of an encoded frame are not taken for inputs."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({f"column {k}": ["a", "bb"] * (N // 2) for k in range(15)})
    y = rng.normal(size=N)
    evaluation = fm.evaluate(
        y, (np.zeros(N), 1.0), frame, encoder=lambda part: part["column 3"].str.len().to_numpy()
    )
    evaluation.report(tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "column 3" not in text
    assert "Witness of the worst point" in text


@pytest.mark.usefixtures("unpainted")
def test_an_iterator_is_used_up(rng, tmp_path):
    texts, encoder, _ = encoded_words(rng)
    y = rng.normal(size=N)
    iterator = iter(texts)
    evaluation = fm.evaluate(
        y, (np.zeros(N), 1.0), iterator, encoder=lambda part: encoder(list(part))
    )
    evaluation.report(tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    Page(text)
    assert "x was an iterator" in text
    assert "Witness of the worst point" not in text
    with pytest.raises(ValueError, match="projection needs the inputs"):
        evaluation.report(tmp_path / "r.html", projection="tsne")


@pytest.mark.usefixtures("unpainted")
@pytest.mark.slow
def test_projections(rng, tmp_path):
    x = rng.normal(size=(N, 3))
    y = rng.normal(size=N)
    evaluation = fm.evaluate(y, (np.zeros(N), 1.0), x)
    for name, projection, description in (
        ("own", x[:, 1:], "the projection passed as an argument"),
        ("callable", lambda rows: rows[:, :2] ** 3, "the projection passed as an argument"),
        ("pca", "pca", "first two principal components"),
    ):
        evaluation.report(tmp_path / f"{name}.html", projection=projection)
        text = (tmp_path / f"{name}.html").read_text(encoding="utf-8")
        assert description in text
        assert text.count("over the plane</strong>") == 3
    evaluation.plot(projection=x[:, 1:])
    with pytest.raises(ValueError, match="'isomap'"):
        evaluation.report(tmp_path / "r.html", projection="isomap")
    with pytest.raises(ValueError, match="projection needs the inputs"):
        fm.evaluate(y, (np.zeros(N), 1.0)).report(tmp_path / "r.html", projection=x[:, 1:])
    # One column has no plane of its own, but may be given one.
    line = fm.evaluate(y, (np.zeros(N), 1.0), x[:, 0])
    line.report(tmp_path / "line.html")
    text = (tmp_path / "line.html").read_text(encoding="utf-8")
    assert "over the plane" not in text
    assert "Negative log-likelihood over inputs" in text
    line.report(tmp_path / "line.html", projection=x[:, 1:])
    assert "over the plane" in (tmp_path / "line.html").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="x has 1 column; projection='tsne'"):
        line.report(tmp_path / "line.html", projection="tsne")


@pytest.mark.usefixtures("unpainted")
def test_many_models(rng, tmp_path):
    """With more models than colours, there are several pictures."""
    y = rng.normal(size=N)
    models = {f"model {scale}": fm.evaluate(y, (np.zeros(N), scale)) for scale in range(1, 9)}
    fm.compare(models).report(tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    Page(text)
    assert text.count("<strong>Reliability</strong>") == 2
    assert text.count('aria-label="Probability integral transform: model') == 8


@pytest.mark.usefixtures("unpainted")
def test_groups_and_random_groups(rng, tmp_path):
    y = rng.normal(size=N)
    by = np.where(y > 0, "<above>", "below")
    evaluation = fm.evaluate(y, (np.zeros(N), 1.0), by=by, adversarial=True)
    evaluation.report(tmp_path / "r.html")
    cells = Page((tmp_path / "r.html").read_text(encoding="utf-8")).cells
    at = cells.index(f"<above> ({(y > 0).sum()} rows)")
    one = next(m for m in evaluation.by["<above>"][1] if m.name == "mae")
    assert cells[at + 3] == f"{one.value:.4g}"
    at = cells.index("error of the worst")
    curve = evaluation.curves["groups"]
    assert cells[at + 2 : at + 5] == [
        f"{curve.sizes[0]}",
        f"{curve.fractions[0]:.3g}",
        f"{curve.mean[0]:.4g}",
    ]


def test_every_number_is_read():
    assert set(READING) == {one.name for one in ALL_MEASURES}


@pytest.mark.slow
@pytest.mark.usefixtures("unpainted")
def test_infinite_scores_and_spreads(rng, tmp_path):
    """An impossible outcome and a prediction without variance leave the page complete."""
    x = rng.normal(size=(N, 2))
    y = rng.uniform(size=N)
    y[3] = 5.0
    evaluation = fm.evaluate(y, scipy.stats.uniform(np.zeros(N), np.ones(N)), x)
    evaluation.report(tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    Page(text)
    assert "1 outcome has no probability" in text
    heavy = fm.StudentT(np.full(N, 1.5), np.zeros(N), np.ones(N))
    evaluation = fm.evaluate(y, heavy, x, tol=1.0, test=False)
    evaluation.report(tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "Sharpness</strong>" not in text


@pytest.mark.slow
def test_large_samples_are_thinned(rng, tmp_path):
    """The page of many rows is no larger than that of some thousands."""
    n = 120_000
    x = rng.normal(size=(n, 2))
    y = x[:, 0] + rng.normal(size=n)
    kernels = {"x_kernel": fm.RBF(0.5), "y_kernel": fm.RBF(0.5)}
    evaluation = fm.evaluate(y, (x[:, 0], 1.0), x, solver="lowrank", tol=1.0, **kernels)
    evaluation.report(tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    # CCE over inputs; CCE, the score and outcomes over the plane.
    assert text.count("Shows 100,000 of 120,000 rows, chosen at random.") == 4
    assert len(text) < 1.5e6
    assert text.count("<use") + text.count("<path") < 10_000


@pytest.mark.usefixtures("unpainted")
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

    monkeypatch.setattr("fastmcmd.report.pictures.svg", fail)
    with pytest.raises(KeyboardInterrupt):
        evaluations["right"].report(path)
    assert path.read_text() == "kept"
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here: the page is not opened")
@pytest.mark.parametrize("dark", [False, True])
def test_in_a_browser(evaluations, tmp_path, dark):
    """The page opens without a console message, sorts its tables, and shows its pictures."""
    path = tmp_path / "report.html"
    fm.compare(evaluations).report(path)
    look = """
    const head = document.querySelector("#points th button"); head.click();
    const down = head.closest("table").tBodies[0].rows[0].cells[0].dataset.value;
    head.click();
    const up = head.closest("table").tBodies[0].rows[0].cells[0].dataset.value;
    const wide = [...document.querySelectorAll("figure > svg")].filter(
      (svg) => svg.getBoundingClientRect().width < 200 || svg.getBoundingClientRect().height < 100);
    document.title = [Number(down) > Number(up), wide.length,
      document.documentElement.scrollWidth <= window.innerWidth,
      getComputedStyle(document.body).backgroundColor].join("|");
    """
    options = ["--window-size=420,900", *(["--force-dark-mode"] if dark else [])]
    sorts, small, fits, colour = browse(path, look, *options)
    assert (sorts, small, fits) == ("true", "0", "true")
    red = int(re.search(r"\d+", colour)[0])
    assert (red < 128) == dark


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here: the page is not opened")
def test_text_is_sorted_in_a_browser(rng, tmp_path):
    """Text columns sort by the alphabet; a wide window shows three pictures side by side."""
    texts, encoder, _ = encoded_words(rng)
    path = tmp_path / "report.html"
    fm.evaluate(rng.normal(size=N), (np.zeros(N), 1.0), texts, encoder=encoder).report(path)
    look = """
    const head = [...document.querySelectorAll("#points th button")].find((one) => one.textContent === "x");
    const column = [...head.closest("tr").children].indexOf(head.closest("th"));
    const texts = () => [...head.closest("table").tBodies[0].rows].map(
      (row) => row.cells[column].textContent);
    const before = texts(); head.click(); const down = texts(); head.click(); const up = texts();
    const sorted = [...before].sort((a, b) => a.localeCompare(b));
    const tops = [...document.querySelectorAll("#inputs .three svg")].map(
      (svg) => Math.round(svg.getBoundingClientRect().top));
    document.title = [String(up) === String(sorted), String(down) === String(sorted.reverse()),
      tops.length, new Set(tops).size].join("|");
    """
    assert browse(path, look, "--window-size=1300,900") == ["true", "true", "3", "1"]


@pytest.mark.parametrize("bar", [False, True])
def test_the_factor_above_an_axis_is_inside_the_picture(bar, monkeypatch):
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    def look(figure, *args, **options):
        savefig(figure, *args, **options)
        factors = [one for one in figure.findobj(Text) if one.get_text() == "1e−6"]
        boxes.extend(one.get_window_extent() for one in factors)
        heights.append(figure.bbox.height)

    def draw(ax):
        if bar:
            ax.figure.colorbar(ax.scatter([1, 2], [1, 2], c=[1e-6, 2e-6]))
        else:
            ax.plot([1, 2], [1e-6, 2e-6])

    boxes, heights, savefig = [], [], Figure.savefig
    monkeypatch.setattr(Figure, "savefig", look)
    svg(draw, "small numbers")
    (box,) = boxes
    assert box.y1 <= heights[0] - 3


@pytest.mark.parametrize("bar", [False, True])
def test_ticks_are_those_of_matplotlib(bar, monkeypatch):
    """Ticks, labels and names stand where matplotlib draws them, and within the picture."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.text import Text

    def look(figure, *args, **options):
        savefig(figure, *args, **options)
        figures.append(figure)

    def draw(ax):
        if bar:
            ax.figure.colorbar(ax.scatter([-3, 20], [-1, 2], c=[-1.5, 7]), label="a bar")
        else:
            ax.plot([-3, 20], [-0.1, 0.25])
            ax.set_xticks([0, 10, 40], ["no", "some", "outside"])
        ax.set(xlabel="across", ylabel="up", xlim=(-3, 20))

    figures, savefig = [], Figure.savefig
    monkeypatch.setattr(Figure, "savefig", look)
    element = svg(draw, "ticks")
    assert "outside" not in element
    (figure,) = figures
    texts = [one for one in figure.artists if isinstance(one, Text)]
    lines = [one for one in figure.artists if isinstance(one, Line2D)]
    for one in texts:
        box = one.get_window_extent()
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= figure.bbox.x1
        assert box.y1 <= figure.bbox.y1
    middles = {one.get_text(): _middle(one) for one in texts}
    places = np.concatenate([one.get_transform().transform(one.get_xydata()) for one in lines])
    for axis in [axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)]:
        axis.set_visible(True)
    FigureCanvasAgg(figure).draw()
    count = 0
    for axis in [axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)]:
        name = axis.label
        assert not name.get_text() or np.allclose(middles[name.get_text()], _middle(name), atol=4)
        side = axis.get_label_position()
        for tick in axis.get_major_ticks():
            label, line = (
                (tick.label2, tick.tick2line) if side == "right" else (tick.label1, tick.tick1line)
            )
            if not label.get_text() or not axis.axes.bbox.padded(1).contains(
                *line.get_transform().transform(line.get_xydata())[0]
            ):
                continue
            count += 1
            place = line.get_transform().transform(line.get_xydata())[0]
            assert np.abs(places - place).max(axis=1).min() < 1e-6
            near = [
                one for one in texts
                if one.get_text() == label.get_text() and np.allclose(_middle(one), _middle(label), atol=1)
            ]  # fmt: skip
            assert near, label
    assert count == len(places)


def _middle(text):
    box = text.get_window_extent()
    return (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2
