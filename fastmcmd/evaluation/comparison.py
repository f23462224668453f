"""Several evaluations of the same outcomes beside each other."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import FilePath, Json, RandomState
from fastmcmd._base.cached import cached_property
from fastmcmd._base.checks import check_choice, check_count, check_labels
from fastmcmd._base.tables import aligned, as_html, data_frame, did_you_mean, printable
from fastmcmd.evaluation.conclusion import comparison_sentence
from fastmcmd.evaluation.config import EvaluationConfig
from fastmcmd.evaluation.evaluating import evaluate, evaluate_many
from fastmcmd.evaluation.measures import MEASURES
from fastmcmd.evaluation.pairs import PairedTests, Pairs
from fastmcmd.evaluation.result import BEST, Evaluation, text
from fastmcmd.inference.comparison import clusters_of
from fastmcmd.inference.difference_map import DifferenceMap
from fastmcmd.inference.inputs import check_simulations

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Comparison", "compare"]

# Whose differences are printed: proper scores, and the CCE. `Comparison.pairs` has all.
_SHOWN = ("nll", "mean_crps", "mean_energy_score", "mean_cce")


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Evaluations by the names of their models.

    Attributes
    ----------
    evaluations : dict of Evaluation
    clusters : ndarray (n,) of int or None
        Clusters of rows between which outcomes are independent; None: all rows are.
    """

    evaluations: Mapping[str, Evaluation]
    clusters: NDArray[np.intp] | None = None

    @cached_property
    def pairs(self) -> Pairs:
        """Differences between all pairs of models: records with interval and p-values, for every measure.

        ``pairs.table()``, ``pairs.to_frame()``, ``pairs.of("mean_crps")``. The record "mean_cce" is of
        the mean squared CCE. Intervals have the level ``confidence`` of the evaluations.
        """
        return self._tests.pairs()

    @cached_property
    def _tests(self) -> PairedTests:
        return PairedTests(self.evaluations, self.clusters, self.level)

    def confidence_set(
        self, measure: str = "mean_crps", samples: int = 1_000, random_state: RandomState = 0
    ) -> dict[str, float]:
        """Return the model confidence set by a measure: p-values of being among the best.

        Parameters
        ----------
        measure : str
            "mean_cce" (of the mean squared CCE), or a score that is a mean of losses by row.
        samples : int
            Bootstrap samples.
        random_state : int or numpy.random.Generator
            Of the bootstrap.

        Returns
        -------
        dict of float
            Models with p-values of at least a are the set of level 1 - a: it holds the best model with at
            least that probability.

        Notes
        -----
        Hansen, Lunde, Nason, *The model confidence set* (Econometrica, 2011).
        """
        names = tuple(one.name for one, _ in self.lines() if one.best)
        check_choice(measure, "measure", names)
        samples = check_count(samples, "samples", least=19)
        if len(self.evaluations) < 2:
            return dict.fromkeys(self.evaluations, 1.0)
        return self._tests.confidence_set(measure, samples, random_state)

    def map(
        self,
        first: str | None = None,
        second: str | None = None,
        measure: str | None = None,
        *,
        at: Any = None,
        x_kernel: Any = None,
        lam: float | None = None,
        simulations: int = 999,
        random_state: RandomState = 0,
    ) -> DifferenceMap:
        """Return where one model is better than another: the difference of their losses over the inputs.

        Parameters
        ----------
        first, second : str, optional
            Names of the models; default the first two.
        measure : str, optional
            A score that is a mean of losses by row. Default: "mean_crps", "mean_energy_score"
            or "nll", whichever there is.
        at : array_like (q, d) or (q,), optional
            Inputs to answer for; default those of the evaluations.
        x_kernel : Kernel, optional
            Kernel on inputs; default three RBF kernels on standardised columns.
        lam : float, optional
            Regulariser, 0.01 by default.
        simulations : int
            Random signs behind the p-values and the band.
        random_state : int or numpy.random.Generator
            Of signs and landmarks.

        Returns
        -------
        DifferenceMap
            Difference and simultaneous band at each input, and the p-value of ``E[d | x] = 0`` for all x.

        Raises
        ------
        ValueError, TypeError
            An argument is not as described, or the evaluations have no inputs or no such losses.

        Notes
        -----
        The hypothesis is that of equal conditional predictive ability (Giacomini & White, *Tests of
        conditional predictive ability*, Econometrica, 2006): two models with the same mean score may
        differ at every x. Signs are drawn by row, or by cluster with ``groups`` or ``block_length``. The
        band is of the smoothed difference; its level is that of the evaluations' ``confidence``.
        """
        names = list(self.evaluations)
        if len(names) < 2:
            raise ValueError("a map of differences needs two models")
        first = names[0] if first is None else first
        second = next(name for name in names if name != first) if second is None else second
        for name, argument in ((first, "first"), (second, "second")):
            check_choice(name, argument, tuple(names))
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
            raise KeyError(f"{hint}no model {name!r}; there are {', '.join(names)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.evaluations)

    def __len__(self) -> int:
        return len(self.evaluations)

    def keys(self) -> tuple[str, ...]:
        """Return the names of the models."""
        return tuple(self.evaluations)

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas frame, a row a measure and a column a model; NaN where a model has none.

        Raises
        ------
        MissingDependencyError
            Without pandas.
        """
        lines = self.lines()
        columns: dict[str, list[Any]] = {
            "metric": [one.name for one, _ in lines],
            "section": [one.section for one, _ in lines],
            "label": [one.label for one, _ in lines],
        }
        for place, name in enumerate(self.evaluations):
            columns[name] = [math.nan if v[place] is None else v[place] for _, v in lines]
        return data_frame(columns).set_index("metric")

    def lines(self) -> list[tuple[Any, list[float | None]]]:
        """Return each measure that any model has, with the value of every model (None without)."""
        lines = []
        levels = {one.settings["level"] for one in self.evaluations.values()}
        for one in MEASURES:
            values = [_value(other, one.name) for other in self.evaluations.values()]
            if any(value is not None for value in values):
                label = one.titled(min(levels)) if len(levels) == 1 else one.label
                lines.append((replace(one, label=label), values))
        return lines

    def best(self, direction: str, values: list[float | None]) -> set[int]:
        """Return which values are best (several where they are equal); none of one model.

        That says nothing of chance: see `starred`.
        """
        key = {"low": lambda v: v, "high": lambda v: -v, "zero": abs}.get(direction)
        known = [(key(v), i) for i, v in enumerate(values) if v is not None] if key else []
        if len(known) < 2 or any(np.isnan(score) for score, _ in known):
            return set()
        least = min(known)[0]
        best = {i for score, i in known if score == least}
        return best if len(best) < len(known) else set()

    def starred(self, name: str) -> set[int]:
        """Return the place of the model that is better than each other one by more than chance, if any.

        Paired tests of the same rows; see `pairs`. Calibration measures need bootstrap samples
        (``n_boot``).
        """
        direction = next((one.best for one in MEASURES if one.name == name), "")
        key = {"low": lambda v: v, "high": lambda v: -v, "zero": abs}.get(direction)
        values = [_value(one, name) for one in self.evaluations.values()]
        known = [(key(v), place) for place, v in enumerate(values) if v is not None] if key else []
        if len(known) < 2 or np.isnan([score for score, _ in known]).any():
            return set()
        place = min(known)[1]
        best = list(self.evaluations)[place]
        p = [one.p_adjusted for one in self.pairs.of(name) if best in (one.first, one.second)]
        return {place} if all(one <= self.level for one in p) else set()

    @property
    def level(self) -> float:
        """Level of the tests behind stars: 1 - ``confidence`` of the evaluations."""
        return 1 - min(one.settings["confidence"] for one in self.evaluations.values())

    @property
    def legend(self) -> str:
        """What a star says."""
        return (
            f"* better than each other model: paired test of the same rows, level {self.level:.3g} "
            "(Holm); calibration measures are tested with n_boot, the CCE by its mean square"
        )

    def table(self) -> str:
        """Return all numbers as text, a model a column; what is significantly best has a star."""
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
        """Which model is better beyond chance, and which are wrong, in one sentence; "" of one model.

        The first proper score that all models have decides: the negative log-likelihood, else the CRPS,
        else the energy score.
        """
        return printable(comparison_sentence(dict(self.evaluations), self.pairs, self.level))

    def conclusions(self) -> list[str]:
        """Return the sentence of the comparison, then that of the exact test of each model that has one."""
        first = [self.sentence] if self.sentence else []
        return first + [
            printable(f"{name}: {one.test.sentence}")
            for name, one in self.evaluations.items()
            if one.test is not None
        ]

    def differences(self) -> str:
        """Return the differences of the proper scores and of the CCE as text, one line per pair."""
        return self.shown_pairs.table() if len(self.shown_pairs) else ""

    @property
    def shown_pairs(self) -> Pairs:
        """Those of `pairs` that are printed: of proper scores and of the mean squared CCE."""
        return Pairs([one for one in self.pairs if one.measure in _SHOWN], self.level)

    def to_dict(self) -> Json:
        """Return a JSON-safe summary by model."""
        return {name: one.to_dict() for name, one in self.evaluations.items()}

    def plot(self, figure: Any = None, projection: Any = "pca") -> Any:
        """Draw all models in shared pictures; see `Evaluation.plot`."""
        from fastmcmd import plots

        return plots.evaluation(self, figure, projection)

    def report(self, path: FilePath, title: str | None = None, projection: Any = "pca") -> Path:
        """Write one HTML page of all models; see `Evaluation.report`."""
        from fastmcmd.report import write_report

        return write_report(self, path, title, projection)

    def __repr__(self) -> str:
        title = f"Comparison of {len(self.evaluations)} models"
        summary = "\n".join([*self.conclusions(), title, self.table()])
        if len(self.evaluations) < 2:
            return summary
        return f"{summary}\n{self.legend}\n\n{self.differences()}"


def _value(evaluation: Evaluation, name: str) -> float | None:
    return next((one.value for one in evaluation.measured if one.name == name), None)


def compare(
    models: Mapping[str, Any],
    y: Any = None,
    x: Any = None,
    *,
    groups: Any = None,
    block_length: int | None = None,
    **settings: Any,
) -> Comparison:
    """Put several models of the same outcomes beside each other.

    Parameters
    ----------
    models : dict
        By the name of the model: its `Evaluation`; or, with ``y``, its prediction as in `evaluate`.
    y : array_like (n,) or (n, k), optional
        Observed outputs, to evaluate predictions on.
    x : array_like (n, d) or (n,), or rows on disk, optional
        Inputs. With them the conditional congruence error is computed, too, for all models together.
    groups : array_like (n,), optional
        Labels of groups within which outcomes depend on each other, such as patients with several visits.
        Tests and intervals then count groups, not rows; at least six are needed, and intervals are honest
        from about twenty.
    block_length : int, optional
        For rows in order of time: blocks of so many consecutive rows are taken as groups. Choose it
        several times as long as the dependence lasts.
    **settings
        Every other keyword of `evaluate`, such as ``n_boot=100`` or ``x_kernel=...``.

    Returns
    -------
    Comparison

    Raises
    ------
    ValueError
        None, or evaluations of other outcomes; predictions that hold NaN in different rows; what
        `evaluate` says of its arguments.
    TypeError
        Anything else than evaluations, or predictions with ``y``; a keyword that `evaluate` does not have.

    Notes
    -----
    Predictions given with ``y`` take less time than `evaluate` for each: kernel values, factors and passes
    over the rows are shared (`ConditionalCongruence.fit_each`). Measured, three models, two cores: their
    CCE took 0.6 of the time at n = 12,000, d = 512 (CG), 0.5 at n = 100,000, d = 2 (low rank). Values agree
    within the sum of both error bounds. `Evaluation.seconds` holds the time of what is shared for each.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-2, 2, 300)
    >>> y = x + 0.3 * rng.normal(size=300)
    >>> models = {"good": fm.Gaussian(x, 0.3), "wide": fm.Gaussian(x, 1.0)}
    >>> comparison = fm.compare(models, y, x)
    >>> comparison.evaluations["good"]["mean_crps"] < comparison.evaluations["wide"]["mean_crps"]
    True
    >>> apart = {name: fm.evaluate(y, model, x) for name, model in models.items()}
    >>> fm.compare(apart).table() == comparison.table()
    True
    """
    if not isinstance(models, Mapping) or not models:
        raise TypeError(
            "models must be a dict of at least one Evaluation, or prediction with y, by its model's name"
        )
    if groups is not None and block_length is not None:
        raise ValueError("compare was given groups and block_length; one of them is needed at most")
    names = [str(name) for name in models]
    if len(set(names)) < len(names):
        raise ValueError(f"models have the same names as text: {', '.join(names)}")
    if y is not None:
        evaluations = _evaluated(models, y, x, settings)
        return Comparison(evaluations, _clusters(evaluations, groups, block_length))
    if x is not None or settings:
        given = ", ".join((["x"] if x is not None else []) + list(settings))
        raise TypeError(f"compare was given {given} without y; evaluations have their own")
    for name, one in models.items():
        if not isinstance(one, Evaluation):
            raise TypeError(
                f"models[{name!r}] is a {type(one).__name__}; an Evaluation is needed, or y for predictions"
            )
    first = next(iter(models.values()))
    for name, one in models.items():
        if not np.array_equal(one.y, first.y, equal_nan=True):
            raise ValueError(f"{name!r} was evaluated on other outcomes than the first model")
    evaluations = {str(name): one for name, one in models.items()}
    return Comparison(evaluations, _clusters(evaluations, groups, block_length))


def _clusters(
    evaluations: Mapping[str, Evaluation], groups: object, block_length: Any
) -> NDArray[np.intp] | None:
    """Return the cluster of each row that was used; None where rows are independent."""
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
    """Evaluate predictions together, by the defaults of `evaluate` where ``settings`` say nothing."""
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
    config = EvaluationConfig.of(**bound.kwargs)
    return evaluate_many(y, {str(name): one for name, one in models.items()}, x, config)
