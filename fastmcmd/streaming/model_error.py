"""The congruence error of a monitored model: of the reference, and of the last batches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd.default_kernels import chosen_kernels
from fastmcmd.inference.smoother import Smoother
from fastmcmd.kernels import Kernel
from fastmcmd.predictive import Categorical, Predictive
from fastmcmd.streaming.congruence import CCE, accumulator_of, saved_accumulator
from fastmcmd.streaming.congruence_estimate import CongruenceEstimate
from fastmcmd.streaming.congruence_saved import SavedCCE
from fastmcmd.streaming.output_features import landmarks_of_outputs
from fastmcmd.streaming.window import SlidingWindow

__all__ = ["ModelError", "SavedModelError"]

Array = NDArray[np.float64]

_LANDMARKS = 100, 200  # chosen from the reference, and the most to which they may grow
_ROWS = 8_192  # rows of the reference that are summed together


@dataclass(frozen=True, eq=False)
class SavedModelError:
    """The sums of a window: those of all its rows, and those of each batch."""

    reference: CongruenceEstimate
    total: SavedCCE
    parts: tuple[SavedCCE, ...]
    batches: int
    rounding: float


class ModelError:
    """The CCE of predictions over a sliding window, by the kernels and landmarks of a reference.

    Parameters
    ----------
    window : SlidingWindow
        The last batches.
    reference : CongruenceEstimate
        The estimate of the reference.
    """

    def __init__(self, window: SlidingWindow, reference: CongruenceEstimate) -> None:
        self._window, self.reference = window, reference

    @staticmethod
    def of(
        x: Array, y: Array, prediction: Predictive, x_kernel: Kernel | None, batches: int
    ) -> ModelError:
        """Return the error of a reference with inputs (n, d) and outcomes (n, k), and an empty window.

        Kernels and regulariser are those of `fastmcmd.cce` for the reference.
        """
        classes = len(prediction.values) if isinstance(prediction, Categorical) else 0
        inputs, outputs, lam = chosen_kernels(x, y, x_kernel, classes=bool(classes))
        outputs = outputs.resolve(y)
        smoother = Smoother.of(inputs, x, _LANDMARKS[0])
        sums = CCE(
            inputs, outputs, _LANDMARKS[0], lam, most_landmarks=_LANDMARKS[1], random_state=0,
            output_landmarks=landmarks_of_outputs(outputs, y, classes, 0),
        )  # fmt: skip
        sums._smoother = smoother  # of all rows, not of the first
        for start in range(0, len(y), _ROWS):
            rows = np.arange(start, min(start + _ROWS, len(y)))
            sums.update(x[rows], y[rows], prediction.take(rows))
        estimate = sums.compute()
        assert isinstance(estimate, CongruenceEstimate)
        return ModelError(SlidingWindow(sums, batches), estimate)

    def update(self, x: Array, y: Array, prediction: Predictive) -> CongruenceEstimate:
        """Add a batch, drop the oldest if there are too many, and return the estimate of the window."""
        estimate = self._window.update(x, y, prediction).compute()
        assert isinstance(estimate, CongruenceEstimate)
        return estimate

    @property
    def batches(self) -> int:
        """Number of batches in the window so far."""
        return len(self._window.parts)

    def saved_state(self) -> SavedModelError:
        """Return the state that `restored` reads."""
        window = self._window
        return SavedModelError(
            self.reference,
            saved_accumulator(window.total),
            tuple(saved_accumulator(part) for part in window.parts),
            window.batches,
            window.tolerance,
        )

    @staticmethod
    def restored(state: SavedModelError) -> ModelError:
        """Return the error from a saved state; later updates give the same numbers."""
        total, parts = accumulator_of(state.total), [accumulator_of(one) for one in state.parts]
        again = total.fresh()
        for part in parts:
            again.merge(part)  # raises an error if settings or models differ
        rows = [0 if one._state is None else one._state.rows for one in (again, total)]
        if len(parts) > state.batches or rows[0] != rows[1]:
            raise ValueError(f"{len(parts)} parts of a window of {state.batches} do not add up")
        window = SlidingWindow(total, state.batches, state.rounding)
        window.restore(total, parts)
        return ModelError(window, state.reference)
