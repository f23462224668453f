"""The result of a diagnosis: the shift and the factor of spread that predictions need at each input."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import Json
from fastmcmd._base.tables import Notebook, aligned
from fastmcmd.frames import RowLabels, to_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["Diagnosis"]

Array = NDArray[np.float64]

_SMALL_REMAINDER = 0.1  # share of the squared CCE up to which the rest is called the shape
_LARGE_REMAINDER = 0.5  # share from which other inputs are worth a try
_REMAINDER = "the shape, or corrections finer than these rows can show"


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis(Notebook):
    """The corrections that make predictions right, at q inputs.

    Attributes
    ----------
    shift : ndarray (q,)
        Amount to add to the prediction, in units of y; for counts, to the logarithm of the mean.
    factor : ndarray (q,)
        Factor by which to multiply the predicted spread. For counts it comes on top of the square root of
        the mean's factor, so that 1 means a right dispersion.
    shift_band, factor_band : ndarray (q, 2)
        Pointwise confidence bands.
    location, spread, shape : ndarray (q,)
        Shares of the squared congruence error beyond chance: the part that the shift explains, the further
        part that the factor explains, and the rest. NaN if nothing beyond chance is left to explain. The
        rest is the shape only if there are enough rows to estimate shift and factor: with few rows and many
        columns it also holds a wrong location or spread that the rows cannot resolve.
    effective_rows : ndarray (q,)
        Effective number of rows behind the answer at an input: ``(sum a_i)^2 / sum a_i^2``.
    supported : ndarray (q,), bool
        Whether there are enough rows near an input. If not, everything else is NaN there.
    total : dict
        The shares of the mean over all supported inputs: "location", "spread", "shape"; empty if the mean
        is not beyond chance.
    level : float
        Confidence level of the bands.
    scale : str
        Unit of the shifts: "units of y" or "log mean".
    reason : str
        The reason why there is no answer at all, or "".
    x : ndarray (q, d)
        The inputs.
    column_names : tuple of str
        Names of the columns of x, if it was a data frame.
    """

    shift: Array
    factor: Array
    shift_band: Array
    factor_band: Array
    location: Array
    spread: Array
    shape: Array
    effective_rows: Array
    supported: NDArray[np.bool_]
    total: dict[str, float]
    level: float
    scale: str
    reason: str
    x: Array
    labels: RowLabels | None = field(default=None)
    column_names: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.shift)

    def __repr__(self) -> str:
        if self.reason:
            return f"No diagnosis: {self.reason}."
        return " ".join(self.sentences())

    def sentences(self) -> list[str]:
        """Return the answer as sentences."""
        supported = self.supported & np.isfinite(self.shift)
        if not supported.any():
            return [
                f"None of {len(self)} inputs has enough rows near it for a diagnosis: more rows, or fewer "
                "columns in x, are needed."
            ]
        return [
            self._about_location(supported),
            self._about_spread(supported),
            *self._about_shares(),
            *self._about_support(supported),
        ]

    def _about_location(self, supported: NDArray[np.bool_]) -> str:
        shift, band = self.shift[supported], self.shift_band[supported]
        wrong = (band[:, 0] > 0) | (band[:, 1] < 0)
        if not self._many(wrong):
            return "No shift is distinguishable from 0."
        worst = shift[wrong][np.argmax(np.abs(shift[wrong]))]
        middle = float(np.median(shift[wrong]))
        if self.scale == "log mean":
            of, most = f"multiplied by {np.exp(middle):.3g}", f"{np.exp(worst):.3g}"
            return f"At {_share(wrong)} of inputs means must be {of} (median; most {most})."
        way = "up" if middle > 0 else "down"
        if (shift[wrong] > 0).any() and (shift[wrong] < 0).any():
            low, high = np.quantile(shift[wrong], [0.1, 0.9])
            return (
                f"At {_share(wrong)} of inputs predictions must move by {low:+.3g} to {high:+.3g}."
            )
        return (
            f"At {_share(wrong)} of inputs predictions must move {way} by {abs(middle):.3g} (median; most "
            f"{abs(worst):.3g})."
        )

    def _about_spread(self, supported: NDArray[np.bool_]) -> str:
        factor, band = self.factor[supported], self.factor_band[supported]
        wrong = (band[:, 0] > 1) | (band[:, 1] < 1)
        if not self._many(wrong):
            return "No factor of spread is distinguishable from 1."
        low, high = np.quantile(factor[wrong], [0.1, 0.9])
        change = "wider" if low > 1 else "narrower" if high < 1 else "wider or narrower"
        return (
            f"At {_share(wrong)} of inputs predictions must become {change}: spread times {low:.3g} to "
            f"{high:.3g}."
        )

    def _many(self, wrong: NDArray[np.bool_]) -> bool:
        """Return whether more bands exclude the right value than pointwise bands do by chance."""
        return bool(wrong.mean() > 2 * (1 - self.level))

    def _about_shares(self) -> list[str]:
        if not self.total:
            return ["The CCE is not beyond chance."]
        location, spread, remainder = (self.total[name] for name in ("location", "spread", "shape"))
        explained = f"Of the squared CCE beyond chance, the location explains {location:.0%}"
        if remainder <= _SMALL_REMAINDER:
            return [f"{explained}, the spread {spread:.0%}, and the shape {remainder:.0%}."]
        left = [f"{explained} and the spread {spread:.0%}; {remainder:.0%} is left: {_REMAINDER}."]
        if remainder > _LARGE_REMAINDER and self.x.shape[1] > 1:
            left.append("Fewer columns as x, such as the predicted mean alone, may show more.")
        return left

    def _about_support(self, supported: NDArray[np.bool_]) -> list[str]:
        missing = int(len(supported) - supported.sum())
        if not missing:
            return []
        return [f"{missing} of {len(supported)} inputs have too few rows near them and no answer."]

    def columns(self) -> dict[str, Array]:
        """Return the values at the inputs, by name."""
        return {
            "shift": self.shift,
            "shift_low": self.shift_band[:, 0],
            "shift_high": self.shift_band[:, 1],
            "factor": self.factor,
            "factor_low": self.factor_band[:, 0],
            "factor_high": self.factor_band[:, 1],
            "location": self.location,
            "spread": self.spread,
            "shape": self.shape,
            "effective_rows": self.effective_rows,
            "supported": self.supported.astype(np.float64),
        }

    def table(self) -> str:
        """Return quantiles over the supported inputs as text."""
        levels = (0.1, 0.5, 0.9)
        rows = [["", "10 %", "median", "90 %", "beyond chance"]]
        supported = self.supported & np.isfinite(self.shift)
        for name, values, band, right in (
            ("shift", self.shift, self.shift_band, 0.0),
            ("factor", self.factor, self.factor_band, 1.0),
        ):
            if supported.any():
                cells = [f"{one:.4g}" for one in np.quantile(values[supported], levels)]
                wrong = (band[supported, 0] > right) | (band[supported, 1] < right)
                rows.append([name, *cells, _share(wrong)])
        shares = [
            ["rest" if name == "shape" else name, "", f"{value:.1%}", "", ""]
            for name, value in self.total.items()
        ]
        text = aligned(rows + shares)
        notes = [
            f"bands: {self.level:.0%}, pointwise; shift in {self.scale}",
            *([f"rest: {_REMAINDER}"] if self.total else []),
            *self._about_support(supported),
        ]
        return "\n".join([text, *notes]) if not self.reason else f"no diagnosis: {self.reason}"

    def to_dict(self) -> Json:
        """Return everything as numbers, lists and text."""
        values: Json = {name: one.tolist() for name, one in self.columns().items()}
        values["supported"] = self.supported.tolist()
        total = dict(self.total)
        return values | {
            "total": total, "level": self.level, "scale": self.scale, "reason": self.reason,
        }  # fmt: skip

    def to_frame(self) -> pd.DataFrame:
        """Return the values at the inputs as a pandas frame, with the row labels of ``x`` or ``at``."""
        return to_frame(self.columns(), self.labels)

    def plot(
        self, x: ArrayLike | None = None, axes: Sequence[Axes] | None = None
    ) -> Sequence[Axes]:
        """Plot shift and factor with their bands, over an input or a projection of the inputs.

        Parameters
        ----------
        x : array_like (q,) or (q, d), optional
            Horizontal axis; default the inputs.
        axes : pair of matplotlib axes, optional
            Axes to draw in. Default: new axes.
        """
        from fastmcmd.plots import diagnosis

        return diagnosis(self, x, axes)


def _share(wrong: NDArray[np.bool_]) -> str:
    return f"{wrong.mean():.0%}"
