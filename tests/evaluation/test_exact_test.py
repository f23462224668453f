"""The exact test as part of an evaluation."""

import json

import numpy as np
import pytest

import fastmcmd as fm


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    x = rng.uniform(-2, 2, 200)
    return x, x + 0.3 * rng.standard_normal(200)


@pytest.mark.slow
def test_conclusion_is_the_first_line(data, tmp_path):
    x, y = data
    evaluation = fm.evaluate(y, fm.Gaussian(x, 0.6), x)
    alone = fm.congruence_test(x, y, fm.Gaussian(x, 0.6), random_state=0)
    assert evaluation.test.p_value == alone.p_value
    assert repr(evaluation).startswith("The model is wrong beyond chance (p = 0.005)")
    assert json.loads(json.dumps(evaluation.to_dict()))["test"]["p_value"] == alone.p_value
    pytest.importorskip("matplotlib")
    evaluation.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.index("wrong beyond chance") < page.index("<table")


def test_rows_left_out_and_encoders(data):
    x, y = data
    holes = y.copy()
    holes[:7] = np.nan
    left = fm.evaluate(holes, fm.Gaussian(x, 0.6), x, nan_policy="omit")
    assert left.test.n == 193
    assert fm.evaluate(holes, fm.Gaussian(x, 0.6), x, nan_policy="propagate").test is None
    items = [f"{one!r}" for one in x.tolist()]
    encoder = lambda rows: np.array(rows, dtype=float)[:, None]  # noqa: E731
    assert fm.evaluate(y, fm.Gaussian(x, 0.6), items, encoder=encoder).test is None
    encoded = fm.evaluate(y, fm.Gaussian(x, 0.6), items, encoder=encoder, test=True)
    assert encoded.test.p_value == 1 / 200
    assert encoded.sentence == encoded.test.sentence


def test_where_it_does_not_apply(data):
    x, y = data
    assert fm.evaluate(y, fm.Gaussian(x, 0.3)).test is None
    assert fm.evaluate(y, fm.Gaussian(x, 0.3), x, test=False).test is None
    with pytest.raises(ValueError, match="test is True, but there are no inputs"):
        fm.evaluate(y, fm.Gaussian(x, 0.3), test=True)
    with pytest.raises(TypeError, match="test"):
        fm.evaluate(y, fm.Gaussian(x, 0.3), x, test="yes")


def test_each_compared_model_is_tested(data):
    x, y = data
    comparison = fm.compare({"right": fm.Gaussian(x, 0.3), "wide": fm.Gaussian(x, 0.6)}, y, x)
    assert comparison.evaluations["right"].test.p_value > 0.05
    assert comparison.evaluations["wide"].test.p_value == 1 / 200
