"""Regions of a report: sums of bins are sums of exactly the rows that the page names."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from importlib import resources

import numpy as np
import pytest
import scipy.stats
from browser import BROWSER, browse

import fastmcmd as fm
from fastmcmd.report.bins import axis_of
from fastmcmd.report.cube import groups_of

pytest.importorskip("matplotlib")
pandas = pytest.importorskip("pandas")

N = 700
NODE = shutil.which("node")
ARITHMETIC = ("arrays", "binomial", "sums", "region", "filter")
DRAWING = ("drawing", "histograms", "heat_map")


def data_of(path):
    """Return the data of a page."""
    text = path.read_text(encoding="utf-8")
    return json.loads(
        re.search(r'<script type="application/json" id="cube">(.*?)</script>', text)[1]
    )


def decoded(packed, *shape):
    """Return an array of the page."""
    return np.frombuffer(base64.b64decode(packed["data"]), "<" + packed["type"]).reshape(shape)


class Example:
    """Make a sample of two groups with named inputs, one of them with few values, and its report."""

    def __init__(self, path, *, weighted=False, several=False, omitted=False):
        rng = np.random.default_rng(5)
        self.x = pandas.DataFrame({
            "age": rng.gamma(4.0, 10.0, N).round(2), "<b>dose": rng.integers(0, 4, N).astype(float),
            "income": rng.normal(size=N), "constant": np.ones(N),
        })  # fmt: skip
        self.by = np.where(rng.random(N) < 0.3, "north", "south")
        mean = self.x["income"].to_numpy() + 0.02 * self.x["age"].to_numpy()
        self.y = mean + rng.normal(size=N) * np.where(self.x["<b>dose"] > 1, 0.5, 1.5)
        self.valid = np.ones(N, dtype=bool)
        if omitted:
            self.valid[::7] = False
            self.y[~self.valid] = np.nan
        self.weights = rng.integers(1, 5, N).astype(float) if weighted else None
        settings = {
            "by": self.by, "sample_weight": self.weights, "test": False,
            "nan_policy": "omit" if omitted else "raise",
        }  # fmt: skip
        self.models = {"one": fm.Gaussian(mean, 1.0)}
        if several:
            self.models["two"] = fm.Laplace(mean + 0.3, np.full(N, 0.8))
        self.comparison = fm.compare(self.models, self.y, self.x, **settings)
        self.comparison.report(path)
        self.data = data_of(path)

    def rows(self, axis, first, last, group):
        """Return the mask of the rows that a region's text names."""
        mask = self.valid & ((self.by == group) if group else True)
        if axis["name"] in self.x:
            values = self.x[axis["name"]].to_numpy()
        else:
            name = axis["name"].partition(" · ")[2] or "one"
            moment = "mean" if "mean" in axis["name"] else "std"
            values = getattr(self.models[name], moment)
        texts = np.array([float(text) for text in axis["texts"]])
        if axis["discrete"]:
            return mask & (values >= texts[first]) & (values <= texts[last])
        low = -np.inf if first == 0 else texts[first - 1]
        high = np.inf if last == axis["bins"] - 1 else texts[last]
        return mask & (values >= low) & (values < high)

    def numbers(self, rows, model):
        """Return the page's numbers for some rows by their plain definitions."""
        y, prediction = self.y[rows], self.models[model].take(np.flatnonzero(rows))
        weights = None if self.weights is None else self.weights[rows]
        evaluation = self.comparison[model]

        def mean(values):
            return np.average(values, weights=weights)

        low, high = prediction.quantile(0.05), prediction.quantile(0.95)
        few = {}
        if not evaluation.supported.all():
            places = np.flatnonzero(np.isfinite(evaluation.rows["cce"]))
            effective = np.full(len(self.y), np.nan)
            effective[places] = evaluation.cce.effective_rows
            few["few_rows_near"] = mean(effective[rows] < 5)
        return {
            "rmse": np.sqrt(mean((y - prediction.mean) ** 2)),
            "bias": mean(prediction.mean - y),
            "nll": mean(-prediction.log_prob(y)),
            "mean_crps": mean(fm.crps(y, prediction)),
            "coverage": mean((y >= low) & (y <= high)),
            "sharpness": np.sqrt(mean(prediction.variance)),
            "mean_cce": mean(evaluation.rows["cce"][rows]),
            **few,
        }

    def pit(self, rows, model):
        """Return weights of PIT values in 20 bins."""
        weights = None if self.weights is None else self.weights[rows]
        pit = self.comparison[model].rows["pit"][rows]
        return np.histogram(pit, np.linspace(0, 1, 21), weights=weights)[0]


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    return Example(tmp_path_factory.mktemp("explorer") / "r.html")


def test_edges_are_the_numbers_that_stand_there(rng):
    """Bins hold what their text says, for skewed, discrete, crowded and tiny values."""
    for values in (
        rng.normal(size=900), rng.gamma(0.3, 1e6, 900), 1e-8 * rng.normal(size=900),
        rng.integers(0, 7, 900).astype(float), np.where(rng.random(900) < 0.9, 0.0, rng.random(900)),
        rng.normal(size=900).astype(np.float32).astype(float), 1e5 + rng.random(900),
    ):  # fmt: skip
        axis = axis_of("v", values, 20)
        assert 2 <= len(axis) <= 21
        texts = [float(text) for text in axis.texts]
        if axis.values is None:
            expected = np.searchsorted(texts, values, side="right")
        else:
            expected = np.abs(values[:, None] - texts).argmin(axis=1)
        np.testing.assert_array_equal(axis.places, expected)
    assert axis_of("v", np.ones(5), 20) is None
    assert axis_of("v", np.array([np.nan, 1.0]), 20) is None


def test_the_smallest_of_many_groups_are_one(rng):
    labels = rng.choice(list("abcdef"), 500, p=[0.3, 0.05, 0.25, 0.05, 0.3, 0.05])
    groups = groups_of(labels, 500, 4)
    assert groups.labels == ["a", "c", "e", "other groups"]
    np.testing.assert_array_equal(groups.places == 3, np.isin(labels, list("bdf")))


@pytest.mark.slow
@pytest.mark.usefixtures("unpainted")
@pytest.mark.parametrize("case", [{}, {"weighted": True, "several": True}, {"omitted": True}])
def test_sums_are_those_of_the_rows(tmp_path, case):
    """A port of the script's arithmetic agrees with plain definitions on the rows of the region."""
    example = Example(tmp_path / "r.html", **case)
    data, rng = example.data, np.random.default_rng(1)
    groups, s = data["groups"], len(data["quantities"])
    assert {axis["name"] for axis in data["axes"]} >= {"age", "<b>dose", "income"}
    for axis in data["axes"]:
        cells = decoded(axis["cells"], -1)
        for _ in range(3):
            first, last = np.sort(rng.integers(0, axis["bins"], 2))
            group = rng.integers(-1, len(groups))
            rows = example.rows(axis, first, last, groups[group] if group >= 0 else None)
            mask = (cells % axis["bins"] >= first) & (cells % axis["bins"] <= last)
            if group >= 0:
                mask &= cells // axis["bins"] == group
            assert decoded(axis["rows"], -1)[mask].sum() == rows.sum()
            if not rows.any():
                continue
            weight = decoded(axis["weights"] or axis["rows"], -1)[mask].sum()
            assert weight == (
                rows.sum() if example.weights is None else example.weights[rows].sum()
            )
            for model, packed in zip(example.models, axis["models"], strict=True):
                sums = decoded(packed["sums"], -1, s)[mask].sum(axis=0) / weight
                expected = example.numbers(rows, model)
                assert [one["name"] for one in data["quantities"]] == list(expected)
                values = [
                    np.sqrt(v) if q["root"] else v
                    for v, q in zip(sums, data["quantities"], strict=True)
                ]
                np.testing.assert_allclose(values, list(expected.values()), rtol=1e-9)
                pit = decoded(packed["pit"], -1, 20)[mask].sum(axis=0)
                np.testing.assert_allclose(pit, example.pit(rows, model))


@pytest.mark.slow
@pytest.mark.usefixtures("unpainted")
def test_witness_and_rows_of_a_region(example):
    data = example.data
    evaluation = example.comparison["one"]
    h = evaluation.congruence.witness(example.x, np.array(data["outcomes"]))
    axis = next(one for one in data["axes"] if one["name"] == "<b>dose")
    sums = decoded(axis["models"][0]["witness"], -1, len(data["outcomes"]))
    cells = decoded(axis["cells"], -1)
    rows = (example.x["<b>dose"] == 2) & (example.by == "south")
    place = np.flatnonzero(cells == axis["bins"] * data["groups"].index("south") + 2)
    np.testing.assert_allclose(sums[place[0]], h[rows].sum(axis=0), atol=1e-3)
    columns = {one["name"]: one["values"] for one in data["list"]["columns"]}
    assert data["list"]["worst"] is None  # all rows are in the page
    assert columns["row"] == list(range(N))
    np.testing.assert_allclose(columns["age"], example.x["age"], rtol=1e-4)
    np.testing.assert_allclose(columns["CCE"], evaluation.rows["cce"], rtol=1e-4)
    assert columns["group"] == list(example.by)


@pytest.mark.slow
@pytest.mark.usefixtures("unpainted")
def test_the_worst_rows_of_every_run_of_bins_are_listed(tmp_path, rng):
    n = 3_000
    x = rng.normal(size=(n, 3))
    y = x[:, 0] + rng.normal(size=n)
    by = rng.integers(0, 3, n)
    evaluation = fm.evaluate(
        y, (x[:, 0], 1.3), x, by=by, test=False, x_kernel=fm.RBF(0.1), tol=1e-2
    )
    evaluation.report(tmp_path / "r.html")
    data = data_of(tmp_path / "r.html")
    row_values, worst = np.array(data["list"]["columns"][0]["values"]), data["list"]["worst"]
    assert worst >= 1
    assert len(row_values) <= 2_000
    cce = evaluation.rows["cce"]
    for axis in data["axes"][:3]:
        texts = [float(text) for text in axis["texts"]]
        places = np.searchsorted(texts, x[:, int(axis["name"][-1]) - 1], side="right")
        for _ in range(5):
            first, last = np.sort(rng.integers(0, axis["bins"], 2))
            rows = np.flatnonzero((places >= first) & (places <= last) & (by == rng.integers(3)))
            assert np.isin(rows[np.argsort(-cce[rows])[:worst]], row_values).all()


@pytest.mark.slow
@pytest.mark.usefixtures("unpainted")
def test_pages_without_inputs_groups_or_scores(tmp_path, rng):
    """The settings decide what the page offers; its size is bounded whatever they are."""
    y = rng.normal(size=N)
    fm.evaluate(y, (np.zeros(N), 1.0)).report(tmp_path / "none.html")
    assert 'id="explore"' not in (tmp_path / "none.html").read_text(encoding="utf-8")
    fm.evaluate(y, (np.zeros(N), 1.0), by=y > 0).report(tmp_path / "group.html")
    data = data_of(tmp_path / "group.html")
    assert [axis["name"] for axis in data["axes"]] == [""]
    assert decoded(data["axes"][0]["rows"], -1).sum() == N
    fm.evaluate(np.stack([y, y], axis=1), fm.Gaussian(np.zeros((N, 2)), 1.0), y, by=y > 0).report(
        tmp_path / "vectors.html"
    )
    data = data_of(tmp_path / "vectors.html")
    assert data["levels"] == 0
    assert data["outcomes"] == []
    y = y[:200]
    many = {f"model {k}": (0.1 * y + k / 10, 1.0) for k in range(6)}
    x = rng.normal(size=(200, 12))
    path = tmp_path / "many.html"
    fm.compare(many, y, x, by=rng.integers(0, 30, 200), test=False).report(path)
    data = data_of(path)
    assert len(data["groups"]) == 1  # within the budget there are no groups
    text = path.read_text(encoding="utf-8")
    assert len(re.search(r'id="cube">(.*?)</script>', text)[1]) < 1e6


@pytest.mark.slow
@pytest.mark.usefixtures("unpainted")
def test_nothing_inline_is_allowed_and_text_of_the_data_stays_text(tmp_path, rng):
    name = '</script><img src=x onerror=alert(1)> style="color:red"'
    x = pandas.DataFrame({name: rng.normal(size=N), "b": rng.normal(size=N)})
    evaluation = fm.evaluate(
        rng.normal(size=N), (np.zeros(N), 1.0), x, by=rng.choice([name, "c"], N)
    )
    path = tmp_path / "r.html"
    evaluation.report(path)
    text = path.read_text(encoding="utf-8")
    assert not re.search(r'<[a-z][^<>]* (style|on\w+)="', text)
    assert "unsafe" not in text
    assert text.count("</script>") == 2
    assert "<noscript>" in text
    assert name in [axis["name"] for axis in data_of(path)["axes"]]


def run_node(program, *arguments):
    """Run the parts of the script that compute and draw, then a program that prints JSON."""
    files = resources.files("fastmcmd.report")
    source = "\n".join(
        files.joinpath(f"{name}.js").read_text(encoding="utf-8") for name in (*ARITHMETIC, *DRAWING)
    )
    process = subprocess.run(
        [NODE, "-e", f"{source}\n{program}", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


@pytest.mark.skipif(
    NODE is None, reason="no node here: the script's arithmetic runs in the browser's test"
)
def test_the_script_adds_up(example, tmp_path):
    """Run the script itself without a browser: columns, groups and the map."""
    (tmp_path / "data.json").write_text(json.dumps(example.data), encoding="utf-8")
    program = """
    const data = decodeData(JSON.parse(require("fs").readFileSync(process.argv[1], "utf8")));
    const regions = JSON.parse(process.argv[2]);
    console.log(JSON.stringify(regions.map((region) => {
      const { region: inside, others } = sumsOf(data, region);
      return [describeRegion(data, region), inside.rows, others.rows, listedRows(data, region),
        numbersOf(data.quantities, inside.models[0].sums, inside.weight),
        numbersOf(data.quantities, others.models[0].sums, others.weight), [...inside.models[0].pit]];
    })));
    """
    age = next(k for k, one in enumerate(example.data["axes"]) if one["name"] == "age")
    axis, plane = example.data["axes"][age], example.data["map"]
    regions = [
        {"group": -1, "axis": age, "from": 2, "to": 5},
        {"group": 1, "axis": age, "from": 0, "to": 3},
        {"group": 0, "axis": -1, "from": 0, "to": 0},
        {"group": -1, "axis": "map", "from": 1, "to": 6, "low": 3, "high": 9},
    ]
    masks = [
        example.rows(axis, 2, 5, None), example.rows(axis, 0, 3, "south"), example.by == "north",
        example.rows(plane["across"], 1, 6, None) & example.rows(plane["up"], 3, 9, None),
    ]  # fmt: skip
    results = run_node(program, tmp_path / "data.json", json.dumps(regions))
    assert results[0][0] == f"{axis['texts'][1]} ≤ age < {axis['texts'][5]}"
    assert results[1][0] == f"group south and age < {axis['texts'][3]}"
    for rows, (_, inside, outside, row_list, numbers, outside_numbers, pit) in zip(
        masks, results, strict=True
    ):
        assert (inside, outside) == (rows.sum(), N - rows.sum())
        assert row_list == np.flatnonzero(rows).tolist()
        np.testing.assert_allclose(numbers, list(example.numbers(rows, "one").values()), rtol=1e-9)
        np.testing.assert_allclose(
            outside_numbers, list(example.numbers(~rows, "one").values()), rtol=1e-9
        )
        assert pit == example.pit(rows, "one").tolist()


@pytest.mark.slow
@pytest.mark.skipif(NODE is None, reason="no node here: the map is not drawn")
@pytest.mark.usefixtures("unpainted")
def test_cells_that_no_data_support_are_grey(tmp_path):
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=(280, 2)), rng.uniform(6, 12, (20, 2))])
    evaluation = fm.evaluate(x[:, 0] + rng.normal(size=300), fm.Gaussian(x[:, 0], 1.0), x)
    evaluation.report(tmp_path / "r.html")
    data = data_of(tmp_path / "r.html")
    (tmp_path / "data.json").write_text(json.dumps(data), encoding="utf-8")
    program = """
    const made = (name) => ({ name, kids: [], append(...kids) { this.kids.push(...kids); },
      setAttribute(key, value) { this[key] = value; } });
    globalThis.document = { createElementNS: (_, name) => made(name) };
    const data = decodeData(JSON.parse(require("fs").readFileSync(process.argv[1], "utf8")));
    const { index, few } = data.followed;
    const [means, shares] = [index, few].map((one) => cellMeans(data, -1, 0, one));
    const whole = { axis: -1, group: -1 };
    const cells = drawMap(data, means, shares, [0, 1], whole).kids.filter((one) => one.name === "rect");
    const drawn = means.map((_, cell) => cell).filter((cell) => !Number.isNaN(means[cell]));
    const bins = binMeans(data, 0, -1, index);
    const dots = drawColumn(data, 0, bins, whole, 1).kids.filter((one) => one.name === "circle");
    console.log(JSON.stringify([
      cells.map((one, k) => [one.class === "few", shares[drawn[k]]]),
      dots.map((one) => one.class), bins.filter((one) => one.rows).map((one) => one.few[0])]));
    """
    cells, dots, few = run_node(program, tmp_path / "data.json")
    assert all(is_grey == (share >= 0.5) for is_grey, share in cells)
    assert 0 < sum(is_grey for is_grey, _ in cells) < len(cells)
    assert [one == "few" for one in dots] == few
    assert 0 < sum(few) < len(few)


@pytest.mark.skipif(NODE is None, reason="no node here: intervals and conditions are not run")
def test_the_script_has_binomial_intervals_and_conditions():
    cases = [(n, p) for n in (1, 2, 7, 40, 1_000, 123_456, 10**6) for p in (0.05, 0.1, 0.5, 0.95)]
    program = """
    const cases = JSON.parse(process.argv[1]);
    const columns = [{ name: "Age", values: [61, 5, null] }, { name: "place", values: ["a", "b", "c"] },
      { name: "score", values: ["Infinity", 2, 3] }];
    const rows = (text) => [0, 1, 2].filter(parseFilter(text, columns).test);
    console.log(JSON.stringify([cases.map(([n, p]) => binomialInterval(n, p, 0.95)),
      rows("age > 60"), rows("age <= 60, place = b"), rows("C"), rows("score > 2"), rows(""),
      parseFilter("colour = 1", columns).error, parseFilter("age > old", columns).error]));
    """
    intervals, *conditions = run_node(program, json.dumps(cases))
    for (n, p), ends in zip(cases, intervals, strict=True):
        assert ends == list(scipy.stats.binom.interval(0.95, n, p)), (n, p)
    assert conditions == [
        [0], [1], [2], [0, 2], [0, 1, 2], 'There is no column "colour".', '"old" is not a number.',
    ]  # fmt: skip


def test_bars_of_classes_hold_a_calibrated_model():
    """Two normal standard deviations of a number of hits, where their variance is at least 5."""
    for p in (0.3, 0.5, 0.8, 0.95, 0.99):
        for factor in (1, 2, 10, 100):
            n = int(np.ceil(5 * factor / (p * (1 - p))))
            half = 1.959964 * np.sqrt(n * p * (1 - p))
            hits = scipy.stats.binom(n, p)
            inside = hits.cdf(np.floor(n * p + half)) - hits.cdf(np.ceil(n * p - half) - 1)
            assert 0.92 <= inside <= 0.975, (p, n)


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no Chromium here: nothing is printed")
def test_the_print_is_short(tmp_path):
    path = tmp_path / "r.html"
    Example(path)
    subprocess.run(
        [
            BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
            f"--user-data-dir={tmp_path / 'profile'}", f"--print-to-pdf={tmp_path / 'r.pdf'}",
            path.as_uri(),
        ],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    assert len(re.findall(rb"/Type\s*/Page\b", (tmp_path / "r.pdf").read_bytes())) <= 4


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no Chromium here: the page is not opened")
def test_a_drag_in_a_browser_shows_the_numbers_of_those_rows(tmp_path):
    path = tmp_path / "r.html"
    example = Example(path, several=True)
    look = """
    const brush = [...document.querySelectorAll(".brush")].find((one) => one.ariaLabel.startsWith("age"));
    const box = brush.getBoundingClientRect();
    brush.setPointerCapture = () => {};
    const fire = (name, share) => brush.dispatchEvent(new PointerEvent(name, {
      clientX: box.left + share * box.width, clientY: box.top + 9, bubbles: true, pointerId: 1 }));
    fire("pointerdown", 0.2); fire("pointermove", 0.45); fire("pointerup", 0.45);
    const press = (key, shiftKey = false) => brush.dispatchEvent(
      new KeyboardEvent("keydown", { key, shiftKey, bubbles: true, cancelable: true }));
    press("ArrowRight"); press("ArrowRight", true);
    const group = document.querySelector("#region-group");
    group.value = "1"; group.dispatchEvent(new Event("change"));
    const read = () => [document.querySelector("#region-status").textContent,
      JSON.stringify([...document.querySelectorAll(".numbers tbody tr")].map(
        (row) => [...row.cells].map((cell) => cell.textContent))),
      [...document.querySelectorAll("#explore tbody tr")].filter((row) => !row.closest(".numbers")).map(
        (row) => row.cells[0].textContent).join(" ")];
    const before = read();
    const filter = document.querySelector("#row-filter");
    filter.value = "income > 0.5"; filter.dispatchEvent(new Event("input"));
    const filtered = read()[2];
    press("Escape");
    document.title = [...before, filtered, document.querySelector("#region-status").textContent].join("|");
    """
    status, table, row_list, filtered, cleared = browse(path, look, "--window-size=1200,900")
    axis = next(one for one in example.data["axes"] if one["name"] == "age")
    share = [(s * 240 - 6) / (240 - 12) for s in (0.2, 0.45)]
    first, last = (int(np.floor(s * axis["bins"])) + 1 for s in share)  # the first arrow moves both
    rows = example.rows(axis, first, last + 1, "south")  # the second extends the end
    text = f"{axis['texts'][first - 1]} ≤ age &lt; {axis['texts'][last + 1]}"
    assert status.startswith(f"Region: group south and {text}: {rows.sum()} of {N} rows")
    assert status.endswith("Chosen by looking: no test.")
    lines = json.loads(table)
    assert lines[0][1:5] == [str(rows.sum()), str(N - rows.sum())] * 2
    for model, (inside, outside) in {"one": (1, 2), "two": (3, 4)}.items():
        for mask, column in ((rows, inside), (~rows, outside)):
            expected = list(example.numbers(mask, model).values())
            values = [float(line[column].replace(",", "")) for line in lines[1:]]
            np.testing.assert_allclose(values, expected, rtol=6e-4)
    cce = example.comparison["one"].rows["cce"]
    order = np.flatnonzero(rows)[np.argsort(-cce[rows])]
    assert [int(one) for one in row_list.split()] == order[:15].tolist()
    some = order[example.x["income"].to_numpy()[order] > 0.5]
    assert [int(one) for one in filtered.split()] == some[:15].tolist()
    assert cleared.startswith("Region: group south:")
