"""`fastmcmd diagnose`, `select` and `recalibrate`, and the differences that `compare` prints."""

import csv
import json

import numpy as np
import pytest
from builders import noisy_sine
from cli_process import run_cli

import fastmcmd as fm

PREDICTION = ("--prediction", "gaussian:mean=m,std=0.3")


def rows(path, seed=0, n=400):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, n)
    y = noisy_sine(rng, x)
    np.savez(path, x=x, y=y, m=np.sin(x) - 0.4, other=np.sin(x), g=np.arange(n) // 8)
    return x, y


@pytest.fixture
def file(tmp_path):
    rows(tmp_path / "rows.npz")
    return tmp_path / "rows.npz"


def test_diagnosis_in_words_and_by_row(file, tmp_path):
    target = tmp_path / "needs.csv"
    process = run_cli("diagnose", str(file), *PREDICTION, "--output", str(target))
    assert process.returncode == 0, process.stderr
    assert "predictions must move up by 0.4" in process.stdout
    with target.open() as stream:
        lines = list(csv.DictReader(stream))
    assert len(lines) == 400
    assert np.median([float(line["shift"]) for line in lines]) == pytest.approx(0.4, abs=0.05)
    process = run_cli("diagnose", str(file), *PREDICTION, "--format", "json")
    numbers = json.loads(process.stdout)
    assert numbers["level"] == 0.9
    assert len(numbers["factor"]) == 400


def test_regions_in_terms_of_columns_that_the_kernel_does_not_see(file, tmp_path):
    data = dict(np.load(file))
    wide = np.where(np.arange(400) % 4 == 0, "city", "land")
    data["y"] = data["m"] + np.where(wide == "city", 2.0, 0.0) + 0.3 * (data["y"] - data["other"])
    path = tmp_path / "places.npz"
    np.savez(path, **data, place=wide)
    process = run_cli("diagnose", str(path), *PREDICTION, "--regions", "place")
    assert process.returncode == 0, process.stderr
    assert "wrong beyond chance" in process.stdout
    process = run_cli("diagnose", str(path), *PREDICTION, "--regions", "place", "--format", "json")
    regions = json.loads(process.stdout)["regions"]
    assert regions[0]["description"] == "place is city"
    assert regions[0]["p_adjusted"] < 0.05


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--regions", "place", "--weights", "w"), "--regions takes no weights"),
        (("--regions", "y"), "--regions names 'y', which is the outcome"),
        (("--regions", "name"), "--regions: column 'name' has 400 different words; at most 20"),
    ],
)
def test_regions_that_cannot_be_tested(file, tmp_path, options, message):
    """The command ignored weights, used the outcome as an input, and named no option in its message."""
    path, rows = tmp_path / "places.npz", np.arange(400)
    places, names = np.array(["city", "land"])[rows % 2], np.char.add("p", rows.astype(str))
    np.savez(path, **dict(np.load(file)), place=places, name=names, w=np.ones(400))
    process = run_cli("diagnose", str(path), *PREDICTION, *options)
    assert process.returncode == 2
    assert message in process.stderr


def test_too_few_rows_for_a_diagnosis_are_said_once(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "rows.npz", x=rng.normal(size=(12, 12)), y=rng.normal(size=12), m=np.zeros(12)
    )
    process = run_cli(
        "diagnose", str(tmp_path / "rows.npz"), "--prediction", "gaussian:mean=m,std=1"
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout.count("\n") == 1
    assert "fewer columns in x" in process.stdout


def test_kernel_is_selected(file):
    process = run_cli("select", str(file), "--format", "json")
    assert process.returncode == 0, process.stderr
    assert "sentence" in json.loads(process.stdout)
    process = run_cli("select", str(file), "--lams", "0.05,0.005")
    assert process.stdout.count("0.005") > 5
    refused = run_cli("select", str(file), "--lams", "0.05;0.005")
    assert refused.returncode == 2
    assert "--lams" in refused.stderr


@pytest.mark.parametrize("method", ["conditional-rescaling", "std-scaling"])
def test_predictions_are_mended(file, tmp_path, method):
    x, y = rows(tmp_path / "new.npz", seed=1)
    target, fit_path = tmp_path / "mended.npz", tmp_path / "mend.npz"
    process = run_cli(
        "recalibrate", str(file), *PREDICTION, "--method", method, "--apply",
        str(tmp_path / "new.npz"), "--output", str(target), "--save", str(fit_path), "--levels", "0.1,0.9",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    archive = np.load(target)
    assert list(archive) == ["row", "mean", "std", "q0.1", "q0.9"]
    mend = fm.load(fit_path)
    before = fm.Gaussian(np.sin(x) - 0.4, 0.3)
    inputs = (x[:, None],) if method == "conditional-rescaling" else ()
    np.testing.assert_allclose(mend.transform(before, *inputs).mean, archive["mean"])
    if method == "conditional-rescaling":
        assert np.mean((archive["q0.1"] <= y) & (y <= archive["q0.9"])) == pytest.approx(
            0.8, abs=0.06
        )


def test_what_is_missing_is_named(file, tmp_path):
    for arguments, message in [
        (("recalibrate", str(file), *PREDICTION), "--save"),
        (("recalibrate", str(file), *PREDICTION, "--apply", str(file)), "--output"),
        (("recalibrate", str(file), *PREDICTION, "--save", str(tmp_path / "a.npz"), "--levels", "2"),
         "--levels"),
        (("compare", str(file), "--model", "pairs=gaussian:mean=m,std=1", "--format", "json"), "pairs"),
        (("compare", str(file), "--model", "sentence=gaussian:mean=m", "--format", "json"), "sentence"),
    ]:  # fmt: skip
        process = run_cli(*arguments)
        assert process.returncode == 2, arguments
        assert message in process.stderr


@pytest.mark.slow
def test_comparison_has_pairs_and_takes_groups(file):
    models = ("--model", "a=gaussian:mean=m,std=0.3", "--model", "b=gaussian:mean=other,std=0.3")
    outputs = []
    for options in ((), ("--groups", "g"), ("--block-length", "40")):
        process = run_cli("compare", str(file), *models, *options, "--format", "json")
        assert process.returncode == 0, process.stderr
        assert "beyond chance" in json.loads(process.stdout)["sentence"]
        pairs = json.loads(process.stdout)["pairs"]
        outputs.append(next(one for one in pairs if one["measure"] == "mean_crps"))
    assert len({one["low"] for one in outputs}) == 3
    assert all(one["p_value"] < 0.01 for one in outputs)


@pytest.fixture
def animals(tmp_path):
    """Write outcomes and probabilities of two classes."""
    rng = np.random.default_rng(0)
    age = rng.uniform(1, 9, 120)
    p = age / 10
    lines = [
        f"{a:.4f},{'cat' if u < q else 'dog'},{q!r},{float(1 - q)!r}"
        for a, u, q in zip(age, rng.uniform(size=120), p.tolist(), strict=True)
    ]
    path = tmp_path / "animals.csv"
    path.write_text("\n".join(["age,animal,p_cat,p_dog", *lines]) + "\n")
    return path


CLASSES = ("--y", "animal", "--x", "age", "--prediction", "classes:cat=p_cat,dog=p_dog")


def test_why_classes_have_no_diagnosis_is_said_once(animals):
    process = run_cli("diagnose", str(animals), *CLASSES)
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith("No diagnosis: classes have neither location nor spread (")
    assert "TemperatureScaling" in process.stdout


def test_probabilities_that_do_not_sum_to_one_are_named_by_line(animals):
    lines = animals.read_text().splitlines()
    lines[3] = "5.0,cat,0.5,0.499"
    animals.write_text("\n".join(lines) + "\n")
    process = run_cli("evaluate", str(animals), *CLASSES)
    assert process.returncode == 2
    assert "sum to 0.999" in process.stderr
    assert "animals.csv, line 4 (1 such rows)" in process.stderr


def test_a_report_names_the_columns_of_the_inputs(animals, tmp_path):
    page = tmp_path / "page.html"
    process = run_cli("evaluate", str(animals), *CLASSES, "--report", str(page))
    assert process.returncode == 0, process.stderr
    text = page.read_text()
    head = text[text.index("Points of largest CCE") :].split("</thead>")[0]
    assert ">age" in head
