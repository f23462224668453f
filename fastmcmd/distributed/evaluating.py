"""`evaluate` and `compare` of Dask collections."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NoReturn

import numpy as np

from fastmcmd._base.annotations import FilePath
from fastmcmd._base.cached import cached_property
from fastmcmd._base.checks import check_choice, check_positive
from fastmcmd._base.ignored import AllIgnoredError
from fastmcmd._base.memory import parse_memory
from fastmcmd._base.seeds import seed_sequence
from fastmcmd.distributed.blocks import Arguments, Blocks
from fastmcmd.distributed.congruence import check_defaults, encoded, running
from fastmcmd.distributed.losses import CongruenceDifferences, CongruenceTerms, Pieces, PieceSums
from fastmcmd.distributed.measures import concluded, curves_of, nulls_of
from fastmcmd.distributed.parts import (
    Differences,
    EvaluationJob,
    ModelParts,
    Parts,
    ValuesJob,
    pair_name,
)
from fastmcmd.distributed.result import BlockResult, in_blocks, write_blocks
from fastmcmd.distributed.rows import RowRules, block_seed, rows_of, valid_rows
from fastmcmd.distributed.running import Run
from fastmcmd.distributed.setting import Setting, rows_per_step, setting_of
from fastmcmd.distributed.sums import BlockPointValues, Summary
from fastmcmd.evaluation.bootstrap import intervals
from fastmcmd.evaluation.comparison import Comparison
from fastmcmd.evaluation.config import EvaluationConfig
from fastmcmd.evaluation.context import Context, Settings
from fastmcmd.evaluation.differences import MEAN_CCE, PairOfModels, Pairs, check_interval
from fastmcmd.evaluation.measures import ALL_MEASURES, CONGRUENCE, SCORES
from fastmcmd.evaluation.measuring import no_weight_in
from fastmcmd.evaluation.pairs import UNBOUNDED, bootstrap_test, has_measure
from fastmcmd.evaluation.result import Evaluation, Measured
from fastmcmd.inference.comparison import (
    LEAST_CLUSTERS,
    ROUNDING,
    Paired,
    holm,
    model_confidence_set,
)
from fastmcmd.inference.comparison import concluded as paired_of
from fastmcmd.inference.tails import LEAST_VALUES, why_no_interval
from fastmcmd.metrics.inputs import NAN_POLICIES
from fastmcmd.options import USUAL_TOL
from fastmcmd.result import Info
from fastmcmd.streaming.congruence_sums import Ridge

__all__ = ["BlockComparison", "BlockEvaluation", "compare", "evaluate"]

_SUPPORTED = (
    "x", "y", "sample_weight", "nan_policy", "level", "bins", "binning", "pit", "random_state",
    "confidence", "by", "n_boot", "test", "ignore_index", "measures", "x_kernel", "y_kernel", "lam",
    "encoder", "tol", "memory_limit", "progress", "checkpoint", "client",
)  # fmt: skip


_SQUARES = {"rmse": "rmse", "r2": "rmse"}  # measures that are tested by their squared errors
# Values by row, and the sums that a prediction has if they apply.
_BY_ROW = {"pit": "pit", "crps": "mean_crps", "brier_score": "mean_brier_score", "log_score": "nll"}


@dataclass(frozen=True, eq=False, repr=False)
class BlockEvaluation(Evaluation):
    """An evaluation of rows in blocks; ``rows`` are Dask arrays.

    Attributes
    ----------
    result : BlockResult or None
        The CCE, by landmarks.
    blocks : Blocks or None
        The data.
    row_values : RowValues or None
        Computes the values of each row.
    rows_used : int
        Rows that were used.
    """

    result: BlockResult | None = None
    blocks: Blocks | None = None
    row_values: RowValues | None = None
    rows_used: int = 0

    @property
    def cce(self) -> BlockResult | None:
        """The conditional congruence error with its certificate; None without inputs."""
        return self.result

    @property
    def in_memory(self) -> bool:
        """False: plots and reports show curves and numbers, and no rows."""
        return False

    @property
    def classes(self) -> tuple[str, ...] | None:
        """None: predictions are not in memory."""
        return None

    @property
    def kernels(self) -> None:
        """None: a report of the kernels needs the rows in memory."""
        return None

    @property
    def cce_accuracy(self) -> str:
        """Text: the error bounds of the mean and of all values of the CCE; "" without a CCE."""
        if self.result is None:
            return ""
        return f"mean right to {self.result.mean_error_bound:.1e}, {super().cce_accuracy}"

    @property
    def row_count(self) -> str:
        """The number of rows that were used, and of how many, as text."""
        rows = f"{self.n:,}" if self.rows_used == self.n else f"{self.rows_used:,} of {self.n:,}"
        return f"{rows} rows"

    @property
    def sentence(self) -> str:
        """The conclusion of the exact test in one sentence; "" without one."""
        return "" if self.test is None else self.test.sentence

    def to_parquet(self, path: FilePath) -> list[str]:
        """Write the values by row, one Parquet file for each block, and return the names of new files.

        Workers write what they compute, to a folder that they share. A file appears only when it is
        complete. Files of the same call are not written again, so an interrupted call can be repeated;
        files of another call are an error.
        """
        assert self.blocks is not None
        assert self.row_values is not None
        return write_blocks(path, self.blocks, self.row_values, self.row_values.identity)


@dataclass(frozen=True, eq=False)
class RowValues:
    """Values by row of one model: "pit", "crps", "log_score", "brier_score", "cce".

    Attributes
    ----------
    model : str
        Name of the model.
    settings, rules, seed
        As in `EvaluationJob`.
    names : tuple of str
        Which values apply.
    values : BlockPointValues or None
        The CCE at inputs.
    """

    model: str
    settings: Settings
    rules: RowRules
    seed: np.random.SeedSequence
    names: tuple[str, ...]
    values: BlockPointValues | None

    @property
    def identity(self) -> tuple[str, ...]:
        """What tells these values from those of another call on the same blocks."""
        settings = replace(self.settings, random_state=0)
        conventions = (
            self.model,
            *self.names,
            repr(settings),
            repr(self.settings.stream),
            repr(self.rules),
        )
        seed = self.seed.entropy, self.seed.spawn_key
        return *conventions, repr(seed), *(() if self.values is None else self.values.identity)

    def __call__(self, arguments: Arguments, number: int) -> Arguments:
        """Return the values of a block, NaN in rows left out."""
        rows = valid_rows(arguments, self.rules, without_weight=True)
        if not rows.outcomes:
            return {name: np.full(rows.n, np.nan) for name in self.names}
        one = rows.outcomes[self.model]
        context = Context(one, replace(self.settings, random_state=block_seed(self.seed, number)))
        results: Arguments = {}
        for name in self.names:
            if name == "pit":
                results[name] = context.pit
            elif name in SCORES:
                results[name] = SCORES[name](context)
        if self.values is not None:
            at = self.values.at(rows_of(arguments["x"], rows.valid))
            results["cce"], results["cce_error_bound"] = at["value"], at["error_bound"]
        return {name: one.scatter(values) for name, values in results.items()}


@dataclass(frozen=True, eq=False)
class _RowsNamed:
    values: RowValues
    name: str

    def __call__(self, arguments: Arguments, number: int) -> Any:
        return self.values(arguments, number)[self.name]


class BlockTests:
    """Paired tests of evaluations of the same rows in blocks, as `fastmcmd.evaluation.pairs.PairedTests`.

    Parameters
    ----------
    evaluations : dict of BlockEvaluation
        Evaluations by the names of their models.
    sums : Sums of a comparison
        Differences and losses.
    level : float
        Level of the tests.
    """

    def __init__(
        self, evaluations: Mapping[str, Evaluation], sums: ComparedSums, level: float
    ) -> None:
        self._evaluations, self._sums, self._level = evaluations, sums, level

    def pairs(self) -> Pairs:
        """Return the differences between all pairs of models."""
        records: list[PairOfModels] = []
        for one in ALL_MEASURES:
            by_model = {
                name: _squared(evaluation) if one.name == MEAN_CCE else evaluation[one.name]
                for name, evaluation in self._evaluations.items()
                if one.best and has_measure(evaluation, one.name)
            }
            tested = [self._pair(one.name, *pair, by_model) for pair in combinations(by_model, 2)]
            p = np.array([one_pair.p_value for one_pair in tested])
            adjusted = holm(np.where(np.isnan(p), 1.0, p)) if tested else p
            records += [
                replace(one_pair, p_adjusted=math.nan if math.isnan(one_pair.p_value) else float(q))
                for one_pair, q in zip(tested, adjusted, strict=True)
            ]
        return Pairs(records, self._level)

    def units(self) -> float:
        """Return the effective number of pieces of rows, ``(sum w)^2 / sum(w^2)``."""
        weights = next(iter(self._sums.losses.values())).weights
        share = weights / weights.sum()
        return 1 / float(share @ share)

    def confidence_set(self, name: str, samples: int, random_state: object) -> dict[str, float]:
        """Return the p-value of each model for being among the best, by a measure."""
        models = list(self._evaluations)
        if name == MEAN_CCE:
            if self._sums.congruence is None:
                raise ValueError("mean_cce has no model confidence set: there are no inputs x")
            losses = self._sums.congruence.pieces
        elif name in self._sums.losses and all(
            has_measure(one, name) for one in self._evaluations.values()
        ):
            losses = self._sums.losses[name]
        else:
            raise ValueError(
                f"{name} has no model confidence set for Dask collections: it is no mean of a score over "
                "rows that every model has"
            )
        if not np.isfinite(losses.sums).all():
            raise ValueError(f"{name} has no model confidence set: some losses are infinite")
        by_model = {model: one[name] for model, one in self._evaluations.items()}
        pairs = (self._pair(name, *one, by_model) for one in combinations(models, 2))
        check_interval(pairs, "model confidence set")
        p = model_confidence_set(losses.sums, None, samples, random_state)
        return dict(zip(models, p.tolist(), strict=True))

    def map(self, *_: object) -> NoReturn:
        """Raise an error: it needs rows in memory."""
        raise ValueError("a map of differences needs rows in memory: compare a sample of the rows")

    def _pair(
        self, measure: str, first: str, second: str, by_model: Mapping[str, float]
    ) -> PairOfModels:
        """Return the difference of two models in a measure, with a t test if it is a mean over rows."""
        nan = math.nan
        difference = by_model[first] - by_model[second]
        record = PairOfModels(measure, first, second, difference, nan, nan, nan, nan)
        values = [self._evaluations[name][measure] for name in (first, second)]
        if np.isnan(values).any():  # rows with NaN that propagates
            return replace(record, difference=nan)
        pair = None
        models = list(self._evaluations)
        places = models.index(first), models.index(second)
        one = self._sums.differences.get(pair_name(_SQUARES.get(measure, measure), *places))
        if measure == MEAN_CCE:
            pair = self._sums.by_congruence.get((first, second))
        elif one is not None:
            reason = ""
            if measure in UNBOUNDED:
                reason = self._why_no_interval(measure, *places, one)
            pair = _of_differences(one, 1 - self._level, reason)
            if pair is not None and measure in _SQUARES:
                return replace(record, p_value=pair.p_value)
        else:
            best = next(one.best for one in ALL_MEASURES if one.name == measure)
            p = bootstrap_test(measure, best, self._evaluations[first], self._evaluations[second])
            return record if p is None else replace(record, p_value=p)
        if pair is None:
            return record
        return replace(
            record, difference=pair.difference, low=pair.low, high=pair.high, p_value=pair.p_value,
            error=pair.error, reason=pair.reason,
        )  # fmt: skip

    def _why_no_interval(self, measure: str, first: int, second: int, one: Differences) -> str:
        """Return why a score without bounds has no interval, from its sums over pieces of the rows."""
        losses = self._sums.losses[measure]
        if not np.isfinite(losses.sums[:, [first, second]]).all():
            return ""
        terms = losses.centred(first, second)
        if one.scatter <= ROUNDING * one.size / one.weight:  # all differences are equal
            terms = np.zeros_like(terms)
        few_pieces = len(terms) < LEAST_VALUES <= one.rows  # most have no weight
        return why_no_interval(terms, "pieces of rows" if few_pieces else "rows")


@dataclass(frozen=True, eq=False)
class ComparedSums:
    """Sums of a comparison.

    Attributes
    ----------
    differences : dict of Differences
        Sums of the differences of scores by row, by measure and pair of models.
    losses : dict of PieceSums
        Scores of all models over pieces of rows, by measure; NaN for models that have none.
    congruence : CongruenceDifferences or None
        Sums of the differences of the mean squared CCE.
    by_congruence : dict of Paired
        These differences by pair of models.
    """

    differences: Mapping[str, Differences]
    losses: Mapping[str, PieceSums]
    congruence: CongruenceDifferences | None
    by_congruence: Mapping[tuple[str, str], Paired | None]


@dataclass(frozen=True, eq=False, repr=False)
class BlockComparison(Comparison):
    """A comparison of models on rows in blocks.

    Attributes
    ----------
    sums : ComparedSums or None
        Sums of losses and of their differences.
    """

    sums: ComparedSums | None = None

    @cached_property
    def _tests(self) -> Any:
        assert self.sums is not None
        return BlockTests(self.evaluations, self.sums, self.level)


def evaluate(**arguments: object) -> BlockEvaluation:
    """Return all measures of predictions, as `fastmcmd.evaluate`, from arguments in blocks."""
    from fastmcmd.evaluation.evaluating import evaluate as whole

    options = check_defaults(whole, arguments, ("prediction", *_SUPPORTED))
    evaluations, _ = _evaluated({"": options.pop("prediction")}, options)
    return evaluations[""]


def compare(**arguments: object) -> BlockComparison:
    """Return a comparison of models, as `fastmcmd.compare`, from arguments in blocks."""
    from fastmcmd.evaluation.evaluating import evaluate as whole

    models = arguments.pop("models")
    for name in ("groups", "block_length"):
        if arguments.pop(name, None) is not None:
            raise ValueError(f"{name} is given, which is not available for Dask collections")
    if not isinstance(models, Mapping) or not models:
        raise TypeError("models must be a dict of predictions by the names of their models")
    import inspect

    bound = inspect.signature(whole).bind(prediction=None, **arguments)
    bound.apply_defaults()
    options = check_defaults(whole, dict(bound.arguments), ("prediction", *_SUPPORTED))
    options.pop("prediction")
    names = [str(name) for name in models]
    if len(set(names)) < len(names):
        raise ValueError(f"models have the same names as text: {', '.join(names)}")
    if "" in names and len(names) > 1:
        raise ValueError(f"models have the names {names}; nonempty texts are needed")
    evaluations, sums = _evaluated(dict(zip(names, models.values(), strict=True)), options)
    return BlockComparison(evaluations, None, sums)


def _evaluated(
    models: Arguments, options: Arguments
) -> tuple[dict[str, BlockEvaluation], ComparedSums]:
    """Return the evaluations, and the sums of their comparison."""
    start = time.perf_counter()
    if options["tol"] is None:
        options = {**options, "tol": USUAL_TOL}
    config = _config(options)
    _check_tested(options)
    rows = {name: options[name] for name in ("x", "y", "sample_weight", "by")}
    rows["x"] = encoded(rows["x"], options["encoder"])
    blocks = Blocks.of(
        **{name: value for name, value in rows.items() if value is not None}, prediction=models
    )
    seed = seed_sequence(options["random_state"])
    rules = RowRules(config.nan_policy, config.ignore_index)
    with running(options, "evaluate", blocks) as run:
        setting, failure = None, "no inputs x were given"
        if options["x"] is not None:
            try:
                setting = _setting(run, blocks, seed, options)
            except config.skippable as error:
                failure = str(error)
        limit = None if options["memory_limit"] is None else parse_memory(options["memory_limit"])
        rank = 0 if setting is None else setting.accumulator._smoother.rank  # type: ignore[union-attr]
        pieces = Pieces.of(blocks) if len(models) > 1 else None
        job = EvaluationJob(
            config.settings, rules, seed, None if setting is None else setting.accumulator,
            rows_per_step(limit, rank, 0, len(models)), config.measures, pieces,
            config.n_boot,
        )  # fmt: skip
        parts = run.reduce(job, blocks)
        if parts is None or not parts.models:
            count = 0 if parts is None else parts.rows
            if parts is not None and parts.ignored == count:
                raise AllIgnoredError(config.ignore_index, count)
            raise ValueError(
                f"all {count:,} rows hold NaN or have no weight; one at least must not"
            )
        values, summaries, terms = {}, None, None
        if setting is not None:
            values = {
                name: BlockPointValues.of(Ridge(parts.congruence, one, setting.lam))
                for name, one in parts.congruence.models.items()
            }
            if pieces is not None:
                terms = CongruenceTerms.of(
                    setting.accumulator, parts.congruence, setting.lam, pieces, seed, job.step
                )
            summaries = run.reduce(ValuesJob(values, rules, terms), blocks)
        evaluations = {}
        for name in models:
            result = None
            if setting is not None and summaries is not None:
                result = _result(
                    run,
                    blocks,
                    setting,
                    values[name],
                    summaries.models[name],
                    options["tol"],
                    parts,
                    name,
                )
                info = replace(result.info, seconds=time.perf_counter() - start)
                result = replace(result, info=info)
            evaluations[name] = _evaluation(
                name,
                models[name],
                blocks,
                parts,
                config,
                seed,
                result,
                values.get(name),
                start,
                options,
                failure,
            )
    if options["test"]:
        from fastmcmd.distributed.testing import congruence_test

        for name, one in models.items():
            test = congruence_test(
                x=rows["x"], y=options["y"], prediction=one, weights=options["sample_weight"],
                random_state=options["random_state"], client=options["client"],
                progress=options["progress"],
            )  # fmt: skip
            seconds = time.perf_counter() - start
            evaluations[name] = replace(evaluations[name], test=test, seconds=seconds)
    congruence: CongruenceDifferences | None = None
    by_congruence: Mapping[tuple[str, str], Paired | None] = {}
    if terms is not None and summaries is not None and summaries.differences is not None:
        congruence = summaries.differences
        by_congruence = terms.concluded(congruence, list(models), config.confidence)
    return evaluations, ComparedSums(parts.pairs, parts.losses, congruence, by_congruence)


def _check_tested(options: Arguments) -> None:
    """Refuse a test that would not be of the rows that are evaluated."""
    if not options["test"]:
        return
    if options["x"] is None:
        raise ValueError("test is True, and there are no inputs x, which the exact test needs")
    if options["ignore_index"] is not None:
        raise ValueError(
            "test=True with ignore_index is not available for Dask collections; leave one of them out"
        )


def _config(options: Arguments) -> EvaluationConfig:
    """Check the arguments as those for rows in memory."""
    names = (
        "sample_weight", "nan_policy", "level", "bins", "binning", "pit", "random_state", "confidence",
        "by", "x_kernel", "y_kernel", "lam", "encoder", "tol", "memory_limit", "progress", "ignore_index",
        "measures", "n_boot",
    )  # fmt: skip
    check_choice(options["nan_policy"], "nan_policy", NAN_POLICIES)
    check_positive(options["tol"], "tol")
    return EvaluationConfig.of(
        **{name: options[name] for name in names}, adversarial=False, test=options["test"],
        draws=None,
    )  # fmt: skip


def _setting(run: Run, blocks: Blocks, seed: np.random.SeedSequence, options: Arguments) -> Setting:
    names = ("x_kernel", "y_kernel", "lam")
    return setting_of(
        run, blocks, seed, **{name: options[name] for name in names}, rank=None, landmarks=None,
        rules=RowRules(options["nan_policy"], options["ignore_index"]),
    )  # fmt: skip


def _result(
    run: Run, blocks: Blocks, setting: Setting, values: BlockPointValues, summary: Summary, tol: float,
    parts: Parts, name: str,
) -> BlockResult:  # fmt: skip
    sums = parts.congruence
    assert sums is not None
    accumulator = setting.accumulator.fresh()
    accumulator.add(sums)
    computed = accumulator.compute()
    estimate = computed[name] if isinstance(computed, dict) else computed
    info = Info(
        "lowrank", "feature", "cpu", "float64", "streamed", "rigorous" if estimate.proven else "sampled",
        sums.rows, sums.rows, len(sums.columns), 0, run.counters.passes, 0.0, 0, setting.notes,
        values.smoother.rank,
    )  # fmt: skip
    return BlockResult(
        np.empty(0), np.empty(0), tol, info, "CCE", None, estimate, accumulator, summary, values,
        None, True,
    )  # fmt: skip


def _evaluation(
    name: str, prediction: Any, blocks: Blocks, parts: Parts, config: EvaluationConfig,
    seed: np.random.SeedSequence, result: BlockResult | None, values: BlockPointValues | None, start: float,
    options: Arguments, failure: str,
) -> BlockEvaluation:  # fmt: skip
    one, settings = parts.models[name], config.settings
    propagated = config.nan_policy == "propagate" and parts.nan_rows > 0
    measures, reasons = concluded(one.sums, one.skipped, settings, one.gaussian)
    nulls = nulls_of(one.sums, settings, one.gaussian)
    measures = [replace(number, null=nulls.get(number.name)) for number in measures]
    replicates = None
    if config.n_boot:
        place = list(parts.models).index(name)
        identity = blocks.token, config.settings.stream, config.n_boot
        replicates = parts.resampled[place].replicates(identity)
        measures = list(intervals(tuple(measures), replicates, config.confidence))
    if result is not None and result.vague:
        reasons |= dict.fromkeys(CONGRUENCE, result.vague)
    elif result is not None:
        measures += _of_congruence(result)
    else:
        reasons |= dict.fromkeys(CONGRUENCE, failure)
    if propagated:
        measures = [number.without_value() for number in measures]
    by = None
    if options["by"] is not None:
        nan_labels = parts.nan_groups if config.nan_policy == "propagate" else ()
        weightless = parts.weightless_groups
        for label in sorted(weightless.keys() - one.groups.keys(), key=str):
            raise no_weight_in(label)
        by = {
            label: _group(
                one.groups[label], settings, label in nan_labels, weightless.get(label, 0)
            )
            for label in sorted(one.groups, key=str)
        }
    names = tuple(short for short, sums in _BY_ROW.items() if sums in one.sums)
    names += () if values is None else ("cce", "cce_error_bound")
    rows = RowValues(
        name, settings, RowRules(config.nan_policy, config.ignore_index), seed, names, values
    )
    columns = {column: in_blocks(blocks, _RowsNamed(rows, column)) for column in names}
    if result is not None:
        result = replace(result, values=columns["cce"], error_bounds=columns["cce_error_bound"])
    infinite = one.sums["nll"].infinite if "nll" in one.sums else 0
    notes = []
    if parts.nan_rows:
        consequence = "every number is NaN" if propagated else "they are left out"
        notes.append(f"{parts.nan_rows:,} of {parts.rows:,} rows hold NaN: {consequence}")
    if parts.ignored:
        notes.append(
            f"{parts.ignored:,} of {parts.rows:,} rows have the ignored label: they are left out"
        )
    if infinite:
        subject = "outcome has" if infinite == 1 else "outcomes have"
        notes.append(f"{infinite:,} {subject} no probability under the prediction")
    return BlockEvaluation(
        tuple(measures), curves_of(one.sums, settings), columns, None, reasons, tuple(notes), parts.rows,
        np.empty(0), None if options["x"] is None else options["x"], prediction, by, config.summary(),
        time.perf_counter() - start, replicates=replicates, result=result, blocks=blocks,
        row_values=rows, rows_used=one.rows + parts.weightless,
    )  # fmt: skip


def _squared(evaluation: Evaluation) -> float:
    """Return the mean squared CCE over the rows."""
    result = evaluation.cce
    assert isinstance(result, BlockResult)
    assert result.estimate is not None
    return result.estimate.value**2


def _group(
    parts: ModelParts, settings: Settings, propagated: bool, weightless: int
) -> tuple[int, tuple[Measured, ...]]:
    """Return the rows and numbers of a group; NaN if a row holds NaN that propagates."""
    measures, _ = concluded(parts.sums, parts.skipped, settings, parts.gaussian)
    return parts.rows + weightless, tuple(
        one.without_value() if propagated else one for one in measures
    )


def _of_congruence(result: BlockResult) -> list[Measured]:
    assert result.summary is not None
    some = result.summary
    values = {"mean_cce": some.weighted / some.weight, "max_cce": some.largest}
    labels = {one.name: one for one in ALL_MEASURES}
    return [
        Measured(name, value, labels[name].section, labels[name].label, labels[name].best)
        for name, value in values.items()
    ]


def _of_differences(one: Differences, confidence: float, reason: str = "") -> Paired | None:
    """Return the weighted mean of differences by row with its t interval; None for too few rows.

    With a ``reason`` why there is no interval, only its standard error.
    """
    nan = math.nan
    if any(one.infinite):
        both = all(one.infinite)
        gap = nan if both else math.inf if one.infinite[0] else -math.inf
        return Paired(gap, nan, nan, 1.0 if both else 0.0, nan)
    mean = one.mean
    share2 = one.weight2 / one.weight**2
    freedom = 1 / share2 - 1
    if one.rows < LEAST_CLUSTERS or freedom < 1:
        return None
    error = one.scatter * math.sqrt((freedom + 1) / freedom)
    negligible = abs(mean) <= ROUNDING * one.size / one.weight
    return paired_of(mean, error, freedom, confidence, negligible, reason)
