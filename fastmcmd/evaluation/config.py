"""The configuration of an evaluation: conventions, rows, and the options of the CCE."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd import metrics
from fastmcmd._base.annotations import Encoder, HostArray, InputsLike, Json
from fastmcmd._base.checks import (
    as_array,
    check_choice,
    check_count,
    check_finite_rows,
    check_flag,
    check_positive,
    check_same_length,
    quote,
    refuse_masked,
)
from fastmcmd._base.ignored import IgnoreIndex, check_ignore_index
from fastmcmd._base.seeds import seed_sequence
from fastmcmd._base.tables import did_you_mean
from fastmcmd.default_kernels import check_lam_or_name, kernel_or_name
from fastmcmd.errors import MemoryLimitError, NumericalError, RowError
from fastmcmd.estimator import ConditionalCongruence
from fastmcmd.evaluation.context import Settings
from fastmcmd.evaluation.measures import ALL_MEASURES
from fastmcmd.evaluation.result import SHORT_NAMES, full_name
from fastmcmd.metrics.inputs import Outcomes
from fastmcmd.metrics.pit import PITS
from fastmcmd.options import Estimation
from fastmcmd.rows import Rows

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["EvaluationConfig", "check_labels", "inputs_of"]


# Arguments that some functions need to be meaningful, although they have a default.
_ARGUMENTS = {
    "censored_likelihood_score": ("lower",),
    "weighted_crps": ("lower",),
    "weighted_energy_score": ("weight",),
    "weighted_gaussian_kernel_score": ("lower",),
    "weighted_variogram_score": ("weight",),
}


def _check_measures(measures: Sequence[str] | None) -> tuple[str, ...]:
    """Return the full names of measures.

    Raises
    ------
    TypeError
        If ``measures`` is no sequence of text.
    ValueError
        If a name is none, or of a function that needs further arguments; the message says how to call it.
    """
    if measures is None:
        return ()
    value: object = measures
    if not isinstance(value, (list, tuple)) or not all(isinstance(one, str) for one in value):
        raise TypeError(
            f"measures is {quote(value)}; a list of names is needed, such as ['gaussian_kernel_score']"
        )
    return tuple(dict.fromkeys(map(_full_name, measures)))


def _full_name(name: str) -> str:
    names = [one.name for one in ALL_MEASURES]
    full = full_name(name, names)
    if full in names:
        return full
    score = name.removeprefix("mean_")
    arguments = _ARGUMENTS.get(score) or _required(score)
    if arguments:
        function = f"mean_{score}" if hasattr(metrics, f"mean_{score}") else score
        keywords = ", ".join(f"{one}=..." for one in arguments)
        raise ValueError(
            f"measures: {name!r} needs {' and '.join(arguments)}, which evaluate does not take; call "
            f"fastmcmd.metrics.{function}(y, prediction, {keywords})"
        )
    short = [one.removeprefix("mean_") for one in names]
    hint = did_you_mean(name, [*short, *names, *SHORT_NAMES])
    raise ValueError(f"measures: {hint}no measure {name!r}; there are {', '.join(short)}")


def _required(name: str) -> tuple[str, ...]:
    """Return the keywords without a default of a function of `fastmcmd.metrics`; () if there is none."""
    function = getattr(metrics, name, None) if name in metrics.__all__ else None
    if not inspect.isfunction(function):
        return ()
    parameters = inspect.signature(function).parameters.values()
    return tuple(
        one.name for one in parameters if one.kind is one.KEYWORD_ONLY and one.default is one.empty
    )


@dataclass(frozen=True, eq=False)
class EvaluationConfig:
    """Checked arguments of `fastmcmd.evaluate`, except the data.

    Attributes
    ----------
    settings : Settings
        Conventions of the numbers.
    sample_weight, nan_policy, by
        Row weights, treatment of NaN, and group labels.
    adversarial, n_boot, confidence
        Optional computations and their settings.
    congruence : ConditionalCongruence
        The estimator of the CCE, not fitted.
    random_state : int, str or None
        The argument, as text if it is not an integer.
    test : bool or None
        Whether to run the exact test; None runs it if it is cheap.
    ignore_index : int, str or None
        Label of rows to leave out.
    measures : tuple of str
        Measures to add.
    """

    settings: Settings
    sample_weight: ArrayLike | None
    nan_policy: str
    by: ArrayLike | None
    adversarial: bool
    n_boot: int
    confidence: float
    congruence: ConditionalCongruence
    random_state: int | str | None
    test: bool | None = None
    ignore_index: IgnoreIndex = None
    measures: tuple[str, ...] = ()

    @property
    def skippable(self) -> tuple[type[Exception], ...]:
        """Errors after which only the CCE is left out; a memory limit set by the user is never exceeded."""
        if self.congruence.memory_limit is None:
            return NumericalError, MemoryLimitError
        return (NumericalError,)

    @staticmethod
    def of(
        *,
        sample_weight: ArrayLike | None,
        nan_policy: str,
        level: float,
        bins: int,
        binning: str,
        pit: str,
        adversarial: bool,
        n_boot: int,
        confidence: float,
        by: ArrayLike | None,
        test: bool | None,
        ignore_index: IgnoreIndex = None,
        measures: Sequence[str] | None = None,
        **estimation: Unpack[Estimation],
    ) -> EvaluationConfig:
        """Return a configuration from the checked arguments of `fastmcmd.evaluate`."""
        check_choice(pit, "pit", PITS)
        check_choice(binning, "binning", ("mass", "width"))
        bins = check_count(bins, "bins")
        n_boot = check_count(n_boot, "n_boot", least=0)
        adversarial = check_flag(adversarial, "adversarial")
        check_lam_or_name(estimation["lam"])
        kernel_or_name(estimation["x_kernel"], "x_kernel")
        kernel_or_name(estimation["y_kernel"], "y_kernel")
        check_count(estimation["draws"], "draws", optional=True)
        level, confidence = _share(level, "level"), _share(confidence, "confidence")
        congruence, random_state = ConditionalCongruence(**estimation), estimation["random_state"]
        # One seed serves all models, so that a generator is advanced only once.
        seed: int | np.random.SeedSequence = seed_sequence(random_state)
        seed_text: int | str | None = None if random_state is None else str(random_state)
        if isinstance(random_state, (int, np.integer)):
            seed, seed_text = random_state, int(random_state)
        settings = Settings(level, bins, binning, pit, seed)
        return EvaluationConfig(
            settings, sample_weight, nan_policy, by, adversarial, n_boot, confidence, congruence, seed_text,
            None if test is None else check_flag(test, "test"),
            check_ignore_index(ignore_index), _check_measures(measures),
        )  # fmt: skip

    def labels(self, outcomes: Outcomes) -> HostArray | None:
        """Return the group labels (n,) of all rows, or None without groups."""
        return None if self.by is None else check_labels(self.by, outcomes.n)

    def summary(self) -> Json:
        """Return the arguments that change numbers."""
        settings = self.settings
        return {
            "level": settings.level, "bins": settings.bins, "binning": settings.binning,
            "pit": settings.pit, "random_state": self.random_state,
            "nan_policy": self.nan_policy, "n_boot": self.n_boot, "confidence": self.confidence,
            "weighted": self.sample_weight is not None,
            **({} if self.ignore_index is None else {"ignore_index": self.ignore_index}),
        }  # fmt: skip


def check_labels(by: ArrayLike, n: int) -> HostArray:
    """Return the group labels (n,) of n rows."""
    refuse_masked(by, "by")
    try:
        labels = np.asarray(by)
    except Exception as error:  # __array__ of other libraries can raise anything
        raise ValueError(f"by cannot be made an array: {error}") from None
    if isinstance(by, (str, Mapping)):
        raise TypeError(
            f"by is {quote(by)}; one label per row is needed, such as a column of a frame: "
            "by=frame['region']"
        )
    if labels.ndim != 1:
        raise ValueError(f"by has shape {labels.shape}; (n,) is needed: one label per row")
    if labels.dtype == object:  # data frames store text so, and integers with missing values
        missing = [i for i, one in enumerate(labels) if not isinstance(one, (str, int))]
        if missing:
            raise RowError(
                f"by has no label in row {missing[0]} ({labels[missing[0]]!r}); text or "
                "integers are needed",
                int(missing[0]),
            )
    if labels.dtype.kind in "fcmM" and (labels != labels).any():
        row = int(np.argmax(labels != labels))
        raise RowError(
            f"by has no label in row {row} ({labels[row]}); one in each row is needed", row
        )
    if len(labels) != n:
        raise ValueError(f"rows must match: y has {n}, by has {len(labels)}")
    return labels


def is_on_disk(x: object) -> bool:
    """Tell whether inputs are rows that are read block by block."""
    return isinstance(x, (str, os.PathLike, Rows))


def inputs_of(
    x: InputsLike | Rows, outcomes: Outcomes, encoder: Encoder | None
) -> InputsLike | Rows:
    """Return the inputs of the valid rows."""
    if outcomes.valid is None or outcomes.blank:
        return x
    if is_on_disk(x):
        raise ValueError(
            "x is on disk and rows hold NaN or an ignored label; nan_policy='omit' and ignore_index need x "
            "in memory, as an array"
        )
    rows = as_array(x, "x")
    check_same_length(x=rows, y=np.empty(outcomes.n))
    selected = rows[outcomes.valid]
    if encoder is None:  # an encoder may take NaN
        check_finite_rows(selected, "x", rows=outcomes.valid)
    return selected


def _share(value: float, name: str) -> float:
    share = check_positive(value, name)
    if share >= 1:
        raise ValueError(f"{name} is {share:g}; a number in (0, 1) is needed")
    return share
