"""Comparison of several models of the same outcomes."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import FilePath, InputsLike, Json, Projection, RandomState
from fastmcmd._base.blockwise import is_blockwise, on_blocks
from fastmcmd._base.cached import cached_property
from fastmcmd._base.checks import check_choice, check_count, check_labels
from fastmcmd._base.tables import ByName, aligned, as_html, data_frame, did_you_mean, printable
from fastmcmd.evaluation.clustered import with_clusters
from fastmcmd.evaluation.conclusion import comparison_sentence, joint
from fastmcmd.evaluation.config import EvaluationConfig
from fastmcmd.evaluation.differences import BOUNDED_SCORES, Pairs
from fastmcmd.evaluation.evaluating import evaluate, evaluate_many
from fastmcmd.evaluation.measures import ALL_MEASURES
from fastmcmd.evaluation.pairs import PairedTests
from fastmcmd.evaluation.result import BEST, Evaluation, full_name, text
from fastmcmd.frames import check_row_order
from fastmcmd.inference.comparison import clusters_of
from fastmcmd.inference.difference_map import DifferenceMap
from fastmcmd.inference.inputs import check_simulations
from fastmcmd.predictive.base import PredictionLike

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["Comparison", "compare"]

# Measures whose differences are printed: proper scores and the CCE. `Comparison.pairs` has all.
_TABLE_MEASURES = ("nll", "mean_brier_score", "mean_crps", "mean_energy_score", "mean_cce")

_SAMPLES = 1_000  # bootstrap samples of a model confidence set
_LEAST_IN_SET = (
    100  # rows or groups of a printed model confidence set: tests/simulations/comparison.py
)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(ByName[Evaluation]):
    """Evaluations of several models of the same outcomes, with paired tests of their differences.

    Attributes
    ----------
    evaluations : dict of Evaluation
        The evaluations, by the names of their models.
    clusters : ndarray (n,) of int or None
        Clusters of rows such that outcomes of different clusters are independent. None: all rows are
        independent.

    Examples
    --------
    A comparison reads like a dictionary of evaluations:

    >>> import numpy as np, fastmcmd as fm
    >>> y = np.random.default_rng(0).normal(size=200)
    >>> models = {"right": (np.zeros(200), 1.0), "too wide": (np.zeros(200), 3.0)}
    >>> comparison = fm.compare(models, y)
    >>> comparison.keys()
    ('right', 'too wide')
    >>> comparison["right"]["crps"] < comparison["too wide"]["crps"]
    True
    >>> comparison.sentence.split(":")[0]
    'right is better than too wide beyond chance (p < 0.0001)'
    """

    evaluations: Mapping[str, Evaluation]
    clusters: NDArray[np.intp] | None = None

    @cached_property
    def pairs(self) -> Pairs:
        """Differences between all pairs of models in every measure, with intervals and p-values.

        Use ``pairs.table()``, ``pairs.to_frame()`` or ``pairs.of("mean_crps")``. The record "mean_cce" is
        the difference of the mean squared CCE. Intervals have the level ``confidence`` of the evaluations.
        Scores without bounds, such as "nll", have intervals and p-values only for at least 200 rows and
        differences with light tails; `PairOfModels.reason` says what is missing.
        """
        return self._tests.pairs()

    @cached_property
    def _tests(self) -> PairedTests:
        return PairedTests(self.evaluations, self.clusters, self.level)

    def confidence_set(
        self, measure: str | None = None, samples: int = _SAMPLES, random_state: RandomState = 0
    ) -> dict[str, float]:
        """Return the model confidence set for a measure: a p-value of being among the best per model.

        Parameters
        ----------
        measure : str, optional
            A score that is a mean of per-row losses, or "mean_cce", which stands for the mean squared CCE.
            Default: "mean_crps"; "mean_energy_score" for vectors, "mean_brier_score" for classes.
        samples : int
            Number of bootstrap samples.
        random_state : int or numpy.random.Generator
            Source of the bootstrap samples.

        Returns
        -------
        dict of float
            P-values by model. The models with p-values of at least a form the set of level 1 - a, which
            contains the best model with at least that probability.

        Raises
        ------
        ValueError
            The measure has no loss for each row, or its differences have no test: "nll" with fewer than
            200 rows, or if a few rows decide its mean.

        Notes
        -----
        The method is that of Hansen, Lunde, Nason, *The model confidence set* (Econometrica, 2011).
        """
        names = tuple(one.name for one, _ in self.lines() if one.best)
        measure = self._loss if measure is None else measure
        measure = check_choice(full_name(measure, names), "measure", names)
        samples = check_count(samples, "samples", least=19)
        if len(self.evaluations) < 2:
            return dict.fromkeys(self.evaluations, 1.0)
        return self._tests.confidence_set(measure, samples, random_state)

    @property
    def _loss(self) -> str:
        """The proper score that decides which models may be the best."""
        return next(
            (name for name in BOUNDED_SCORES if len(self.pairs.of(name))), BOUNDED_SCORES[0]
        )

    @cached_property
    def may_be_best(self) -> str:
        """The model confidence set as text: which of three or more models may be the best.

        "" for fewer models, losses that are infinite, or fewer than 100 rows or groups, weighted ones by
        their effective number: of 50 rows, one set of twelve lacks a best model. Also "" if the level is so
        small that the bootstrap samples exclude no model.
        """
        pairs, models = self.pairs.of(self._loss), len(self.evaluations)
        if models < 3 or not _all_have_intervals(pairs, models):
            return ""
        if self.level * (_SAMPLES + 1) < 1 or self._tests.units() < _LEAST_IN_SET - 0.5:
            return ""
        p_values = self.confidence_set()
        best = [name for name, p in p_values.items() if p >= self.level]
        return printable(
            f"the best by {Pairs.label(self._loss)} is {joint(best, 'or')} (model confidence set, "
            f"{100 * (1 - self.level):g} %)"
        )

    def map(
        self,
        first: str | None = None,
        second: str | None = None,
        measure: str | None = None,
        *,
        at: object = None,
        x_kernel: object = None,
        lam: float | None = None,
        simulations: int = 999,
        random_state: RandomState = 0,
    ) -> DifferenceMap:
        """Return the difference of two models' losses as a function of the inputs.

        Parameters
        ----------
        first, second : str, optional
            Names of the models. Default: the first two.
        measure : str, optional
            A score that is a mean of per-row losses. Default: the first of "mean_crps",
            "mean_energy_score", "nll" and "mean_brier_score" that is finite for both models.
        at : array_like (q, d) or (q,), optional
            Inputs at which to evaluate the map. Default: those of the evaluations.
        x_kernel : Kernel, optional
            Kernel on inputs. Default: three RBF kernels on standardised columns.
        lam : float, optional
            Regulariser. Default: 0.01.
        simulations : int
            Number of random sign vectors for the p-values and the band.
        random_state : int or numpy.random.Generator
            Source of the signs and landmarks.

        Returns
        -------
        DifferenceMap
            Difference and simultaneous band at each input, and the p-value of ``E[d | x] = 0`` for all x.

        Raises
        ------
        ValueError, TypeError
            An argument is not as described, or the evaluations have no inputs or no such losses; or the
            measure is "nll", with fewer than 200 rows or a few that decide its mean.

        Notes
        -----
        The null hypothesis is equal conditional predictive ability (Giacomini & White, *Tests of
        conditional predictive ability*, Econometrica, 2006): two models with the same mean score may
        differ at every x. Signs are drawn per row, or per cluster with ``groups`` or ``block_length``. The
        band is for the smoothed difference, at the level ``confidence`` of the evaluations.
        """
        names = list(self.evaluations)
        if len(names) < 2:
            raise ValueError("a map of differences needs two models")
        first = names[0] if first is None else first
        second = next(name for name in names if name != first) if second is None else second
        for name, argument in ((first, "first"), (second, "second")):
            check_choice(name, argument, tuple(names))
        if measure is not None:
            measures = tuple(one.name for one, _ in self.lines())
            measure = check_choice(full_name(measure, measures), "measure", measures)
        return self._tests.map(
            first, second, measure, at, x_kernel, lam, check_simulations(simulations),
            random_state,
        )  # fmt: skip

    def __getitem__(self, name: str) -> Evaluation:
        """Return the evaluation of a model by its name."""
        try:
            return self.evaluations[name]
        except (KeyError, TypeError):
            names = list(self.evaluations)
            hint = did_you_mean(name, names)
            raise KeyError(f"no model {name!r}; {hint}there are {', '.join(names)}") from None

    def keys(self) -> tuple[str, ...]:
        """Return the names of the models."""
        return tuple(self.evaluations)

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas frame with one row per measure and one column per model; NaN if not applicable.

        Raises
        ------
        MissingDependencyError
            If pandas is not installed.
        """
        lines = self.lines()
        columns: dict[str, list[object]] = {
            "metric": [one.name for one, _ in lines],
            "section": [one.section for one, _ in lines],
            "label": [one.label for one, _ in lines],
        }
        for place, name in enumerate(self.evaluations):
            columns[name] = [math.nan if v[place] is None else v[place] for _, v in lines]
        return data_frame(columns).set_index("metric")

    def lines(self) -> list[tuple[Any, list[float | None]]]:
        """Return each measure that any model has, with the values of all models (None if missing)."""
        lines = []
        levels = {one.settings["level"] for one in self.evaluations.values()}
        for one in ALL_MEASURES:
            values = [_value(other, one.name) for other in self.evaluations.values()]
            if any(value is not None for value in values):
                label = one.titled(min(levels)) if len(levels) == 1 else one.label
                lines.append((replace(one, label=label), values))
        return lines

    def best(self, direction: str, values: list[float | None]) -> set[int]:
        """Return the indices of the best values: several if they are equal, none for a single model.

        The best value may be due to chance; see `starred`.
        """
        key = {"low": lambda v: v, "high": lambda v: -v, "zero": abs}.get(direction)
        scores = [(key(v), i) for i, v in enumerate(values) if v is not None] if key else []
        if len(scores) < 2 or any(np.isnan(score) for score, _ in scores):
            return set()
        least = min(scores)[0]
        best = {i for score, i in scores if score == least}
        return best if len(best) < len(scores) else set()

    def starred(self, name: str) -> set[int]:
        """Return the index of the model that is significantly better than every other model, if any.

        The tests are paired, on the same rows; see `pairs`. Calibration measures need bootstrap samples
        (``n_boot``).
        """
        direction = next((one.best for one in ALL_MEASURES if one.name == name), "")
        key = {"low": lambda v: v, "high": lambda v: -v, "zero": abs}.get(direction)
        values = [_value(one, name) for one in self.evaluations.values()]
        scores = [(key(v), place) for place, v in enumerate(values) if v is not None] if key else []
        if len(scores) < 2 or np.isnan([score for score, _ in scores]).any():
            return set()
        place = min(scores)[1]
        best = list(self.evaluations)[place]
        p = [one.p_adjusted for one in self.pairs.of(name) if best in (one.first, one.second)]
        return {place} if all(one <= self.level for one in p) else set()

    @property
    def level(self) -> float:
        """Level of the tests behind the stars: 1 - ``confidence`` of the evaluations."""
        return 1 - min(one.settings["confidence"] for one in self.evaluations.values())

    @property
    def legend(self) -> str:
        """Meaning of a star in the table."""
        return (
            f"* better than each other model: paired test of the same rows, level {self.level:.3g} "
            "(Holm); calibration measures are tested with n_boot, the CCE by its mean square"
        )

    def gaps(self) -> list[str]:
        """Return why numbers of the table are missing, a line for each reason and its models."""
        labels: dict[tuple[str, str], list[str]] = {}
        for one, values in self.lines():
            models: dict[str, list[str]] = {}
            for (name, evaluation), value in zip(self.evaluations.items(), values, strict=True):
                if value is None and one.name in evaluation.skipped:
                    models.setdefault(evaluation.skipped[one.name], []).append(name)
            for reason, names in models.items():
                labels.setdefault((", ".join(names), reason), []).append(one.label)
        return [
            printable(f"not computed for {names}: {', '.join(measures)} ({reason})")
            for (names, reason), measures in labels.items()
        ]

    def table(self) -> str:
        """Return all numbers as text, one column per model; a star marks the significantly best value."""
        return aligned(self._lines())

    def _repr_html_(self) -> str:
        return as_html(self.conclusions(), self._lines())

    def _lines(self) -> list[list[str]]:
        rows = [["", *self.evaluations, ""]]
        section = ""
        for one, values in self.lines():
            if one.section != section:
                section = one.section
                rows.append([section, *[""] * len(values), ""])
            best = self.starred(one.name)
            cells = ["" if v is None else text(v) for v in values]
            cells = [f"* {cell}" if i in best else cell for i, cell in enumerate(cells)]
            rows.append([f"  {one.label}", *cells, BEST[one.best]])
        return rows

    @cached_property
    def sentence(self) -> str:
        """One sentence: which model is significantly better, and which are wrong; "" for a single model.

        The first proper score that has a test for all models decides: negative log-likelihood, CRPS, energy
        score, Brier score. The negative log-likelihood has one if no few rows decide its mean.
        """
        return printable(comparison_sentence(dict(self.evaluations), self.pairs, self.level))

    @property
    def title(self) -> str:
        """One line: the numbers of models, and of rows that were used."""
        count = len(self.evaluations)
        rows = next(iter(self.evaluations.values())).row_count
        return f"Comparison of {count} model{'s' * (count > 1)} at {rows}"

    def conclusions(self) -> list[str]:
        """Return the sentence of the comparison, then the sentence of each model with an exact test."""
        first = [self.sentence] if self.sentence else []
        return first + [
            printable(f"{name}: {one.test.sentence}")
            for name, one in self.evaluations.items()
            if one.test is not None
        ]

    def differences(self) -> str:
        """Return the differences of the proper scores and of the CCE as text, one line per pair.

        A line below says which of three or more models may be the best.
        """
        if not len(self.shown_pairs):
            return ""
        return "\n".join(filter(None, [self.shown_pairs.table(), self.may_be_best]))

    @property
    def shown_pairs(self) -> Pairs:
        """The printed part of `pairs`: differences of proper scores and of the mean squared CCE."""
        return Pairs([one for one in self.pairs if one.measure in _TABLE_MEASURES], self.level)

    def to_dict(self) -> Json:
        """Return a JSON-safe summary, by model."""
        return {name: one.to_dict() for name, one in self.evaluations.items()}

    def plot(self, figure: Figure | None = None, projection: Projection = "pca") -> Figure:
        """Plot all models in shared panels; see `Evaluation.plot`."""
        from fastmcmd import plots

        return plots.evaluation(self, figure, projection)

    def report(
        self, path: FilePath, title: str | None = None, projection: Projection = "pca"
    ) -> Path:
        """Write one HTML page about all models; see `Evaluation.report`."""
        from fastmcmd.report import write_report

        return write_report(self, path, title, projection)

    def __repr__(self) -> str:
        summary = "\n".join([*self.conclusions(), self.title, self.table()])
        if len(self.evaluations) < 2:
            return summary
        notes = "\n".join([self.legend, *self.gaps()])
        return f"{summary}\n{notes}\n\n{self.differences()}"


def _all_have_intervals(pairs: Pairs, models: int) -> bool:
    return len(pairs) == math.comb(models, 2) and not any(math.isnan(one.low) for one in pairs)


def _value(evaluation: Evaluation, name: str) -> float | None:
    return next((one.value for one in evaluation.measured if one.name == name), None)


def compare(
    models: Mapping[str, Evaluation | PredictionLike],
    y: ArrayLike | None = None,
    x: InputsLike | None = None,
    *,
    groups: ArrayLike | None = None,
    block_length: int | None = None,
    **settings: object,
) -> Comparison:
    """Compare several models of the same outcomes: all measures, and paired tests of the differences.

    Parameters
    ----------
    models : dict
        Models by name: `Evaluation` objects; or, with ``y``, predictions as in `evaluate`.
    y : array_like (n,) or (n, k), optional
        Observed outputs. Required if ``models`` holds predictions.
    x : array_like (n, d) or (n,), or rows on disk, optional
        Inputs. If passed, the conditional congruence error is computed as well, for all models together.
    groups : array_like (n,), optional
        Labels of groups within which outcomes depend on each other, such as patients with several visits.
        Tests and intervals then count groups, not rows. At least six groups are needed, and intervals are
        reliable from about twenty. Whether a model is wrong is tested by groups, too, if there are ten.
    block_length : int, optional
        For rows in order of time: number of consecutive rows that form a group. Choose it several times as
        long as the dependence lasts.
    **settings
        Any other keyword of `evaluate`, such as ``n_boot=100`` or ``x_kernel=...``; also ``client``.

    Returns
    -------
    Comparison
        The evaluations, with ``.table()``, ``.pairs``, ``.sentence``, ``.plot()`` and ``.report()``.

    Raises
    ------
    ValueError
        No models; evaluations of different outcomes; predictions that hold NaN in different rows; or an
        error of `evaluate`.
    TypeError
        Models that are neither evaluations nor, with ``y``, predictions; a keyword that `evaluate` does not
        have.

    Notes
    -----
    Predictions passed with ``y`` take less time than separate calls of `evaluate`, because kernel values,
    factors and passes over the rows are shared (`ConditionalCongruence.fit_each`). For three models on two
    cores, the CCE took 0.6 of the time at n = 12,000, d = 512 (CG), and 0.5 at n = 100,000, d = 2 (low
    rank). Values agree within the sum of both error bounds. `Evaluation.seconds` of each model includes the
    time of the shared work.

    Examples
    --------
    Two models with the same mean; one claims too much spread.

    >>> import numpy as np, fastmcmd as fm
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-2, 2, 300)
    >>> y = x + 0.3 * rng.normal(size=300)
    >>> models = {"good": fm.Gaussian(x, 0.3), "wide": fm.Gaussian(x, 1.0)}
    >>> comparison = fm.compare(models, y, x)
    >>> print(comparison.sentence.split(";")[0])
    good is better than wide beyond chance (p < 0.0001): its CRPS is 0.104 lower

    Each model has its evaluation:

    >>> [round(comparison[name]["crps"], 3) for name in models]
    [0.163, 0.267]

    Evaluations of the same rows can be compared, too:

    >>> apart = {name: fm.evaluate(y, model, x) for name, model in models.items()}
    >>> fm.compare(apart).table() == comparison.table()
    True
    """
    if is_blockwise(models, y, x, groups, settings, client=settings.get("client")):
        return on_blocks("compare", locals())
    if not isinstance(models, Mapping) or not models:
        swapped = isinstance(y, Mapping) or isinstance(x, Mapping)
        hint = ": the order of arguments is (models, y, x)" if swapped else ""
        raise TypeError(
            "models must be a dict of at least one Evaluation, or prediction with y, by its model's name"
            + hint
        )
    if groups is not None and block_length is not None:
        raise ValueError("compare was given groups and block_length; one of them is needed at most")
    names = [str(name) for name in models]
    if len(set(names)) < len(names):
        raise ValueError(f"models have the same names as text: {', '.join(names)}")
    check_row_order(y=y, groups=groups)
    if y is not None:
        evaluations = _evaluated(models, y, x, settings)
        return _clustered(evaluations, groups, block_length)
    if x is not None or settings:
        passed_names = ", ".join((["x"] if x is not None else []) + list(settings))
        raise TypeError(f"compare was given {passed_names} without y; evaluations have their own")
    evaluations = {}
    for name, one in models.items():
        if not isinstance(one, Evaluation):
            raise TypeError(
                f"models[{name!r}] is a {type(one).__name__}; an Evaluation is needed, or y for predictions"
            )
        evaluations[str(name)] = one
    first = next(iter(evaluations.values()))
    for name, one in evaluations.items():
        if not np.array_equal(one.y, first.y, equal_nan=True):
            raise ValueError(f"{name!r} was evaluated on other outcomes than the first model")
    return _clustered(evaluations, groups, block_length)


def _clustered(
    evaluations: dict[str, Evaluation], groups: object, block_length: object
) -> Comparison:
    """Return the comparison, with the tests of the evaluations by cluster if there are any."""
    clusters = _clusters(evaluations, groups, block_length)
    if clusters is not None:
        evaluations = {name: with_clusters(one, clusters) for name, one in evaluations.items()}
    return Comparison(evaluations, clusters)


def _clusters(
    evaluations: Mapping[str, Evaluation], groups: object, block_length: object
) -> NDArray[np.intp] | None:
    """Return the cluster of each row that was used, or None if rows are independent."""
    if groups is None and block_length is None:
        return None
    first = next(iter(evaluations.values()))
    numbers = None
    if groups is not None:
        numbers = check_labels(groups, "groups", first.n)
    length = check_count(block_length, "block_length", optional=True)
    clusters = clusters_of(first.n, numbers, length)
    assert clusters is not None
    if first.context is not None and first.context.outcomes.valid is not None:
        clusters = clusters[first.context.outcomes.valid]
    return clusters


def _evaluated(
    models: Mapping[str, Any], y: ArrayLike, x: Any, settings: dict[str, Any]
) -> dict[str, Evaluation]:
    """Return evaluations of predictions, computed together; ``settings`` override `evaluate`'s defaults."""
    for name, one in models.items():
        if isinstance(one, Evaluation):
            raise TypeError(
                f"models[{name!r}] is an Evaluation already; with y predictions are needed"
            )
    try:
        bound = inspect.signature(evaluate).bind(y, None, x, **settings)
    except TypeError as error:
        raise TypeError(f"compare: {error}; with y it takes the keywords of evaluate") from None
    bound.apply_defaults()
    if settings.get("checkpoint") is not None:
        raise ValueError(
            "checkpoint is given, and no argument is a Dask collection, which needs one"
        )
    unsaved = ("checkpoint", "client")
    config = EvaluationConfig.of(
        **{name: value for name, value in bound.kwargs.items() if name not in unsaved}
    )
    return evaluate_many(y, {str(name): one for name, one in models.items()}, x, config)
