"""Arguments that once raised an error of another library, or were misread."""

from __future__ import annotations

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd._base.checks import as_array, as_weights, check_choice, check_count, check_path
from fastmcmd._base.memory import parse_memory
from fastmcmd.errors import NumericalError

N = 30
RNG = np.random.default_rng(0)
X = RNG.normal(size=N)
Y = X + 0.3 * RNG.normal(size=N)
P = fm.Gaussian(X, 0.3)


def refuses(kind, match, call):
    with pytest.raises(kind, match=match):
        call()


# Integers


@pytest.mark.parametrize(
    "value",
    [2**60 + np.arange(3), [2**53 + 1], np.array([2**64 - 1], np.uint64), [-(2**53) - 1],
     np.array([0, 2**63 - 1]), np.array([2**70 + 1, 1], object)],
)  # fmt: skip
def test_integers_that_float64_cannot_hold_are_refused(value):
    refuses(
        ValueError, r"x holds -?\d+, which float64 cannot represent", lambda: as_array(value, "x")
    )


@pytest.mark.parametrize(
    "value",
    [2**60 + 256 * np.arange(3), [2**53, -(2**53)], np.array([2**63], np.uint64), [-(2**63)],
     np.array([2**70, 1], object), np.array([3, 4], np.int8)],
)  # fmt: skip
def test_integers_that_float64_holds_are_taken_as_they_are(value):
    array = as_array(value, "x")
    assert [int(one) for one in array] == [int(one) for one in value]


def test_long_doubles_that_float64_would_make_equal():
    if np.finfo(np.longdouble).nmant <= 52:
        pytest.skip("long doubles are doubles here")
    x = np.longdouble(2**60) + np.arange(N)
    refuses(ValueError, "x holds 1152921504606846977", lambda: fm.cce(x, Y, P, x_kernel=fm.Delta()))
    values = [0.1, 2.0**53, 1e300, -np.inf, np.nan, np.longdouble(2) ** 70 + 2**10]
    array = as_array(np.array(values, np.longdouble), "x")
    np.testing.assert_array_equal(array, np.array(values, np.float64))


def test_large_identifiers_do_not_collapse():
    """x = 2**60 + i with Delta became one group."""
    x = 2**60 + np.arange(N)
    refuses(ValueError, "x holds 1152921504606846977", lambda: fm.cce(x, Y, P, x_kernel=fm.Delta()))


def test_an_integer_beyond_float64():
    refuses(ValueError, "x holds integers beyond", lambda: as_array([10**400, 1], "x"))
    refuses(ValueError, "lam is beyond the range", lambda: fm.cce(X, Y, P, lam=10**400))


# Objects


@pytest.mark.parametrize(
    "value", [["1.5", "2"], [b"1", b"2"], [1j, 2.0], [{}, 1.0], [np.datetime64("2020"), 1.0]]
)
def test_objects_are_not_parsed(value):
    objects = np.empty(2, dtype=object)
    objects[:] = value
    refuses(
        TypeError, "y holds Python objects that are not numbers", lambda: as_array(objects, "y")
    )


def test_objects_that_are_numbers():
    import decimal
    import fractions

    values = [
        1,
        2.5,
        None,
        True,
        np.float32(0.5),
        decimal.Decimal("0.25"),
        fractions.Fraction(1, 4),
    ]
    array = as_array(np.array(values, dtype=object), "y")
    np.testing.assert_array_equal(array, [1, 2.5, np.nan, 1, 0.5, 0.25, 0.25])


def test_missing_values_of_pandas():
    pandas = pytest.importorskip("pandas")
    column = pandas.Series(pandas.array([1, None, 3], dtype="Int64"))
    np.testing.assert_array_equal(as_array(column, "y"), [1, np.nan, 3])


# Tensors


def test_tensors():
    torch = pytest.importorskip("torch")
    a = torch.tensor([1.0, 2.0, 3.0])
    refuses(TypeError, "y is a meta tensor", lambda: as_array(a.to("meta"), "y"))
    refuses(TypeError, "y is a sparse tensor", lambda: as_array(a.to_sparse(), "y"))
    refuses(TypeError, "y has dtype complex", lambda: as_array(torch.complex(a, a).conj(), "y"))
    lazy = torch.complex(a, -a).conj().imag  # a view that is negated when it is read
    np.testing.assert_array_equal(as_array(lazy, "y"), [1, 2, 3])
    np.testing.assert_array_equal(as_array(a.to(torch.bfloat16).requires_grad_(), "y"), [1, 2, 3])


# Weights and regularisers


@pytest.mark.parametrize("value", [5e-324, 1e300])
def test_weights_whose_squares_leave_the_range(value):
    w = np.full(N, value)
    for call in (
        lambda: fm.metrics.rmse(Y, P, sample_weight=w),
        lambda: fm.evaluate(Y, P, sample_weight=w),
        lambda: fm.classification.ece(Y > 0, np.full(N, 0.5), sample_weight=w),
    ):
        refuses(ValueError, "sample_weight has a largest value", call)
    refuses(ValueError, "weights has a largest value", lambda: fm.cce(X, Y, P, weights=w))


def test_weights_whose_ratio_leaves_the_range():
    w = np.ones(N)
    w[0] = 1e-200
    refuses(
        ValueError, "weights has a positive value of 1e-200", lambda: as_weights(w, "weights", N)
    )
    w[0] = 0.0
    assert as_weights(w, "weights", N) is not None
    w[0] = 1e-60
    assert as_weights(w, "weights", N)[0] == 1e-60


def test_a_weight_is_not_an_array():
    for weight in (1.0, np.float64(1), None):
        if weight is not None:
            refuses(
                ValueError, r"sample_weight has shape \(\)",
                lambda weight=weight: fm.metrics.rmse(Y, P, sample_weight=weight),
            )  # fmt: skip


@pytest.mark.parametrize("lam", [1e308, 5e-324])
def test_a_regulariser_that_leaves_the_range(lam):
    for call in (
        lambda: fm.cce(X, Y, P, lam=lam),
        lambda: fm.mcmd(X, X, Y, X, -Y, lam_prime=lam),
        lambda: fm.plan(X, lam=lam),
        lambda: fm.evaluate(Y, P, lam=lam),
    ):
        refuses(ValueError, r"lam(_prime)? is .* a number in \[1e-100, 1e\+100\]", call)


# Others


def test_groups_without_a_label():
    refuses(
        ValueError, "by has no label in row 0", lambda: fm.evaluate(Y, P, by=np.full(N, np.nan))
    )
    by = np.where(np.arange(N) == 7, np.nan, 1.0)
    refuses(ValueError, "by has no label in row 7", lambda: fm.evaluate(Y, P, by=by))


def test_choices_and_counts_are_no_arrays():
    refuses(ValueError, "kind is array", lambda: check_choice(np.array(["a"]), "kind", ("a", "b")))
    refuses(TypeError, "size is array", lambda: check_count(np.ones(3), "size"))
    refuses(TypeError, "size is np.True_|size is True", lambda: check_count(np.True_, "size"))
    refuses(ValueError, "size is 4611686018427387904", lambda: check_count(2**62, "size"))


@pytest.mark.parametrize("value", ["yes", 2, np.ones(3), None])
def test_flags(value):
    p, labels = np.full((6, 3), 1 / 3), np.arange(6) % 3
    refuses(TypeError, "ordered is", lambda: fm.classification.evaluate(labels, p, ordered=value))


def test_paths_and_sizes():
    refuses(TypeError, "path is b'a'", lambda: check_path(b"a", "path"))
    refuses(ValueError, "path is ''", lambda: check_path("", "path"))
    refuses(ValueError, "memory_limit is .*nan", lambda: parse_memory(np.float64("nan")))
    fitted = fm.recalibration.StdScaling().fit(P, Y)
    refuses(TypeError, "path is array", lambda: fitted.save(np.ones(3)))


def test_options_that_are_not_used_are_checked():
    refuses(ValueError, "solver is 'fast'", lambda: fm.evaluate(Y, P, solver="fast"))


def test_kernels_and_results():
    refuses(TypeError, "kernel is 3", lambda: P.expected_kernel(3, np.zeros((2, 1))))
    refuses(TypeError, "described is 'RBF'", lambda: fm.kernels.kernel_from_dict("RBF"))
    result = fm.cce(X, Y, P)
    refuses(ValueError, "level is 2", lambda: result.quantile(2))
    refuses(TypeError, "components is 3", lambda: fm.Mixture(3))


# Errors that only several parts together showed


@pytest.mark.parametrize("value", [np.ones(3), [], 2, "yes", None])
def test_flags_of_ranked_probabilities(value):
    p = np.full((N, 3), 1 / 3)
    for score in ("ranked_probability_score", "mean_ranked_probability_score"):
        function = getattr(fm.classification, score)
        refuses(TypeError, "normalize is", lambda f=function: f(np.zeros(N), p, normalize=value))


def test_lists_that_are_no_seeds():
    endless = []
    endless.append(endless)
    for value in (endless, [[1, 2], [3]], [[1], [2]]):
        refuses(
            TypeError, "random_state is", lambda v=value: fm.cce(X, Y, P, draws=4, random_state=v)
        )


def test_encoders_that_cannot_be_called_or_return_no_rows():
    refuses(TypeError, "encoder is .* a callable", lambda: fm.cce(X, Y, P, encoder=lambda: 0))
    refuses(TypeError, "encoder is 3", lambda: fm.cce(X, Y, P, encoder=3))
    refuses(ValueError, r"encoder\(x\) has shape", lambda: fm.cce(X, Y, P, encoder=lambda x: 0.0))
    refuses(TypeError, "function is .* two rows", lambda: fm.CustomKernel(lambda a: 0.0))


@pytest.mark.parametrize("value", [1e300, -1e308])
def test_inputs_too_large_for_the_kernel_are_named(value):
    large = X.copy()
    large[4] = value
    paper = {"x_kernel": "paper", "y_kernel": "paper"}
    refuses(NumericalError, "^x is too large", lambda: fm.cce(large, Y, P, **paper))
    one = np.zeros_like(X)
    one[4] = 1.0  # beside which the others are negligible
    np.testing.assert_allclose(fm.cce(large, Y, P).values, fm.cce(one, Y, P).values, atol=2e-6)
    refuses(NumericalError, "^at is too large", lambda: fm.cce(X, Y, P, at=large, **paper))
    far, near = fm.cce(X, Y, P, at=large), fm.cce(X, Y, P, at=X)
    np.testing.assert_allclose(np.delete(far.values, 4), np.delete(near.values, 4), atol=1e-9)
    assert far.values[4] == 0  # every kernel value there is 0
    refuses(NumericalError, "^grid is too large", lambda: fm.mcmd(large, X, Y, X, -Y))
    refuses(NumericalError, "^x_prime is too large", lambda: fm.mcmd(X, X, Y, large, -Y))
    fitted = fm.ConditionalCongruence(**paper).fit(X, Y, P)
    refuses(NumericalError, "^x_new is too large", lambda: fitted.score_samples(large))


def test_messages_name_the_argument():
    refuses(ValueError, "level is", lambda: fm.cce(X, Y, P).quantile(np.full((2, 2, 2), 0.5)))
    refuses(ValueError, "array of draws holds NaN", lambda: fm.Draws([[0.0, 1.0], [np.nan, 0.0]]))
    refuses(ValueError, "as mean has", lambda: fm.DoublePoisson([1.0, 2.0], [1.0, 2.0, 3.0]))
    refuses(ValueError, "as mean has", lambda: fm.NegativeBinomial([1.0], [1.0, 2.0, 3.0]))
    refuses(ValueError, "mean times dispersion", lambda: fm.Gamma.from_mean([5e-324], 0.4))
    refuses(TypeError, "components is", lambda: fm.Mixture(np.array(0.5)))
    refuses(ValueError, "points hold infinity", lambda: P.expected_kernel(fm.RBF(0.5), [np.inf]))
    group = fm.metrics.adversarial_group_calibration
    for value in (np.inf, np.array(0.5), lambda: 0.0):
        refuses(TypeError, "groups is", lambda v=value: group(Y, P, groups=v))
    area = fm.streaming.AUROC().update(np.zeros(N), np.full((N, 3), 1 / 3))
    refuses(ValueError, "y has no rows", area.compute)


def test_flags_of_drawn_groups():
    from fastmcmd.compat.uncertainty_toolbox import adversarial_group_calibration

    refuses(
        TypeError,
        "draw_with_replacement is",
        lambda: adversarial_group_calibration(
            X, np.full(N, 0.3), Y, "mean_abs", draw_with_replacement=np.ones(3)
        ),
    )


@pytest.mark.parametrize("dtype", [np.float64("nan"), np.float32(1), np.ones(1), 0.5, "nonsense"])
def test_a_number_is_no_dtype(dtype):
    """NumPy takes the dtype of a number for one, so that NaN meant float64."""
    refuses(TypeError, "dtype is", lambda: fm.cce(X, Y, P, dtype=dtype))
