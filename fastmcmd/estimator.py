"""The CCE as a fitted estimator that evaluates new inputs and the witness, and can be saved."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from fastmcmd import storage
from fastmcmd._base.annotations import (
    CertificateName,
    DType,
    Encoder,
    FilePath,
    HostArray,
    InputsLike,
    Landmarks,
    MemoryLimit,
    RandomState,
    SolverName,
)
from fastmcmd._base.checks import as_rows, check_path
from fastmcmd._base.names import as_names
from fastmcmd._base.params import Parameters
from fastmcmd._base.progress import Progress
from fastmcmd.estimate.arguments import prepared_inputs, scaled_inputs
from fastmcmd.estimate.fit import Fit, fit
from fastmcmd.estimate.samples import Problem, encoded_inputs, problem_of
from fastmcmd.frames import check_row_order
from fastmcmd.gram import check_sizes, shared_row_statistics
from fastmcmd.inference.chance import Chance
from fastmcmd.inference.noise_tolerance import noise_tolerance
from fastmcmd.kernels import Kernel, Scaled
from fastmcmd.kernels.base import KernelLike
from fastmcmd.mcmd import evaluate_at
from fastmcmd.options import DEFAULTS, USUAL_TOL, Options, where_data_are
from fastmcmd.planning.choice import settled
from fastmcmd.predictive.base import PredictionLike
from fastmcmd.result import Result
from fastmcmd.rows import Rows, check_apart, files_of

__all__ = ["ConditionalCongruence"]


class ConditionalCongruence(Parameters):
    """Conditional congruence error of a model, fitted on one sample and evaluated anywhere.

    Parameters
    ----------
    x_kernel, y_kernel, lam, draws, encoder, random_state
        What to estimate, as in `cce`.
    tol : float or None
        Largest allowed error of a value. None means 1e-6 for up to 10,000 rows, and beyond a hundredth
        of the standard deviation of the values of a right model, from 1e-6 to 1e-4; ``result_.tol`` is the
        number.
    solver, backend, dtype, memory_limit, progress, certificate, rank, landmarks
    cache_dir, checkpoint, devices, device_memory_limit
        How to compute it, as in `cce`. Only ``fit`` uses the checkpoint.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns of the (encoded) inputs.
    result_ : Result
        CCE at the inputs used for fitting.
    x_kernel_, y_kernel_ : Kernel
        The kernels of the fit: those passed, or those chosen from inputs and outcomes.
    lam_ : float
        The regulariser of the fit.

    Examples
    --------
    A model that is twice too wide. Its CCE at new inputs needs no outcomes there.

    >>> import numpy as np, fastmcmd as fm
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-2, 2, 400)
    >>> y = x + 0.3 * rng.normal(size=400)
    >>> cc = fm.ConditionalCongruence().fit(x, y, fm.Gaussian(x, 0.6))
    >>> cc.score_samples([0.0, 1.0]).round(2).tolist()
    [0.24, 0.19]

    The witness at x = 0 is positive near 0: the model gives too little probability to the middle, and
    too much to both sides.

    >>> (cc.witness([0.0], [-1.0, 0.0, 1.0]) > 0).tolist()
    [[False, True, False]]
    """

    def __init__(
        self,
        x_kernel: KernelLike = None,
        y_kernel: KernelLike = None,
        lam: float | str | None = None,
        draws: int | None = None,
        encoder: Encoder | None = None,
        random_state: RandomState = None,
        tol: float | None = 1e-6,
        solver: SolverName = "auto",
        backend: str = "auto",
        dtype: DTypeLike | None = None,
        memory_limit: MemoryLimit = None,
        progress: bool = False,
        certificate: CertificateName = "auto",
        rank: int | None = None,
        landmarks: Landmarks = None,
        cache_dir: FilePath | None = None,
        checkpoint: FilePath | None = None,
        devices: Sequence[int] | None = None,
        device_memory_limit: int | str | None = None,
    ) -> None:
        self.x_kernel = x_kernel
        self.y_kernel = y_kernel
        self.lam = lam
        self.draws = draws
        self.encoder = encoder
        self.random_state = random_state
        self.tol = tol
        self.solver = solver
        self.backend = backend
        self.dtype = dtype
        self.memory_limit = memory_limit
        self.progress = progress
        self.certificate = certificate
        self.rank = rank
        self.landmarks = landmarks
        self.cache_dir = cache_dir
        self.checkpoint = checkpoint
        self.devices = devices
        self.device_memory_limit = device_memory_limit
        self._fit: Fit | None = None
        self._chance: Chance | None = None  # the data, from which noise is estimated
        self._scales: tuple[float, ...] | None = None  # of the columns of inputs
        self._files: dict[str, str] = {}  # input files of the fit, by argument name

    def options(self, x: InputsLike | None = None) -> Options:
        """Return the checked numerical options for inputs ``x``."""
        backend, devices = where_data_are(self.backend, self.devices, x)
        arguments: Any = {name: getattr(self, name) for name in DEFAULTS}
        if self.tol is None:
            arguments["tol"] = USUAL_TOL if self._fit is None else self.result_.tol
        return Options.of(**{**arguments, "backend": backend, "devices": devices})

    def _by_noise(self, problem: Problem) -> tuple[Options, tuple[str, ...]]:
        """Return the options, with the tolerance that noise asks for if ``tol`` is None, and a note."""
        options = problem.options
        if self.tol is not None:
            return options, ()
        usual = USUAL_TOL
        tol = noise_tolerance(
            problem.nature, problem.models, *problem.kernels, usual, options.memory_limit
        )
        if tol == usual:
            return replace(options, tol=usual), ()
        note = f"tol={tol:.0e} is a hundredth of the standard deviation that values of a right model have"
        return replace(options, tol=tol), (note,)

    def fit(
        self,
        x: InputsLike,
        y: ArrayLike,
        prediction: PredictionLike,
        weights: ArrayLike | None = None,
    ) -> ConditionalCongruence:
        """Fit on inputs ``x``, outputs ``y`` and predictions at ``x``, and return the estimator itself.

        Parameters
        ----------
        x, y, prediction, weights
            As in `cce`.
        """
        options = self.options(x)
        check_row_order(x=x, y=y, prediction=prediction, weights=weights)
        files = files_of(x=x, y=y, prediction=prediction, weights=weights)
        with shared_row_statistics():
            rows = encoded_inputs(x, self.encoder, "x", options)
            problem = problem_of(
                rows, y, [prediction], self.x_kernel, self.y_kernel, self.lam, self.draws, weights,
                self.random_state, options,
            )  # fmt: skip
            nature, (model,), kernels = problem.nature, problem.models, problem.kernels
            options, notes = self._by_noise(problem)
            self._fit, result = evaluate_at(
                nature, model, *kernels, options, problem.grid, "CCE", stays=True
            )
        result = result.with_notes(notes).with_suspicions(problem.suspicions[0])
        norms = self._fit.norms
        self._set_chance(
            result, Chance(nature, model, *kernels, problem.grid, computed_norms=norms)
        )
        self._files, self._scales, self.lam_ = files, problem.scales, nature.lam
        self.n_features_in_ = rows.shape[1]
        self.input_dtype_ = problem.grid.dtype
        self.output_columns_ = nature.all_outputs.values.shape[2]  # type: ignore[union-attr]
        return self

    def fit_each(
        self,
        x: InputsLike,
        y: ArrayLike,
        predictions: Mapping[str, PredictionLike],
        weights: ArrayLike | None = None,
    ) -> dict[str, ConditionalCongruence]:
        """Return one fitted copy per prediction at ``x``, by name, sharing the work of the solves.

        Parameters
        ----------
        x, y, weights
            As in `cce`.
        predictions : dict
            Predictions by the names of their models, each as in `cce`.

        Returns
        -------
        dict of ConditionalCongruence
            Fitted estimators. Their values agree with those of `fit` within the sum of both error bounds.

        Raises
        ------
        ValueError
            If ``checkpoint`` is set, because it holds the state of a single fit.
        TypeError
            If ``predictions`` is not a dict with at least one entry.

        Notes
        -----
        The systems ``(K_X + n lam I) B = P - P'`` of all models differ only in their right-hand sides, so
        they are solved together: kernel values, the factor or passes over the rows are computed once. Each
        model has separate features and a separate certificate. If ``memory_limit`` does not allow all
        models at once without slowing any of them, they are solved in groups, down to one at a time.

        Examples
        --------
        >>> import numpy as np, fastmcmd as fm
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(-2, 2, 400)
        >>> y = x + 0.3 * rng.normal(size=400)
        >>> models = {"right": fm.Gaussian(x, 0.3), "wide": fm.Gaussian(x, 0.6)}
        >>> fits = fm.ConditionalCongruence().fit_each(x, y, models)
        >>> bool(fits["right"].result_.mean < fits["wide"].result_.mean)
        True
        """
        if not isinstance(predictions, Mapping) or not predictions:
            raise TypeError(
                "predictions must be a dict of at least one, by the names of their models"
            )
        if self.checkpoint is not None:
            raise ValueError(
                "checkpoint holds the state of one fit; use fit for each model, or checkpoint=None"
            )
        options = self.options(x)
        check_row_order(x=x, y=y, weights=weights)
        files = files_of(x=x, y=y, weights=weights)
        rows = encoded_inputs(x, self.encoder, "x", options)
        problem = problem_of(
            rows, y, predictions.values(), self.x_kernel, self.y_kernel, self.lam, self.draws, weights,
            self.random_state, options,
        )  # fmt: skip
        nature, models, kernels = problem.nature, problem.models, problem.kernels
        rows = problem.grid
        options, notes = self._by_noise(problem)
        estimators: dict[str, ConditionalCongruence] = {}
        with Progress(options.progress, options.tol) as progress:
            options = settled(options, kernels, nature.x, nature.lam)
            fits = fit(nature, models, *kernels, options, rows, progress, stays=True)
            for name, fitted in zip(predictions, fits, strict=True):
                values, errors, info = fitted.evaluate(rows, progress)
                result = Result.of(values, errors, options.tol, info, f"CCE of {name!r}")
                result = result.with_notes(notes)
                result = result.with_suspicions(problem.suspicions[len(estimators)])
                one = type(self)(**self.get_params())
                columns = nature.all_outputs.values.shape[2]  # type: ignore[union-attr]
                one.restore(
                    fitted, replace(result, name="CCE"), rows.shape[1], columns, rows.dtype,
                    problem.scales, nature.lam,
                )  # fmt: skip
                model = models[len(estimators)]
                chance = Chance(nature, model, *kernels, rows, computed_norms=fitted.norms)
                one._set_chance(one.result_, chance)
                one._files = {**files, **files_of(**{f"prediction {name!r}": predictions[name]})}
                estimators[name] = one
        return estimators

    def fitted(self) -> Fit:
        """Return the fitted embeddings; raise an error if ``fit`` has not been called."""
        if self._fit is None:
            raise ValueError("this ConditionalCongruence is not fitted; call fit(x, y, prediction)")
        return self._fit

    def restore(
        self,
        fitted: Fit,
        result: Result,
        features: int,
        columns: int,
        dtype: DType,
        scales: tuple[float, ...] | None,
        lam: float,
    ) -> None:
        """Set the attributes that `fit` sets, from a saved file or a fit of several models."""
        self._fit, self.result_, self._scales, self.lam_ = fitted, result, scales, lam
        self.n_features_in_, self.output_columns_, self.input_dtype_ = features, columns, dtype

    @property
    def x_kernel_(self) -> Kernel:
        """Kernel on inputs of the fit, with numeric parameters."""
        kernel = self.fitted().x_kernel
        return kernel if self._scales is None else Scaled(kernel, self._scales)

    @property
    def y_kernel_(self) -> Kernel:
        """Kernel on outputs of the fit, with numeric parameters."""
        return self.fitted().y_kernel

    def _set_chance(self, result: Result, chance: Chance) -> None:
        self._chance, self.result_ = chance, replace(result, source=chance)

    @property
    def chance(self) -> Chance | None:
        """The samples of the fit with their kernels; None if the estimator was loaded from a file."""
        return self._chance

    def _grid(self, x_new: InputsLike, encoder: Encoder | None) -> HostArray | Rows:
        self.fitted()
        grid = encoded_inputs(x_new, encoder, "x_new", self.options(), self.n_features_in_)
        if not isinstance(grid, Rows):
            grid = grid.astype(np.result_type(grid.dtype, self.input_dtype_), copy=False)
        grid = scaled_inputs(self.x_kernel_, self.options(), x_new=grid)[2][0]
        check_sizes(self.fitted().x_kernel, x_new=grid)
        return prepared_inputs(self.fitted().x_kernel, x_new=grid)[0]

    def evaluate(self, x_new: InputsLike) -> Result:
        """Return the CCE at inputs (q, d), which need no outcomes, with its certificate."""
        options = self.options()
        fitted = self.fitted()
        grid = self._grid(x_new, self.encoder)
        progress = Progress(options.progress, options.tol)
        try:
            values, errors, info = fitted.evaluate(grid, progress)
        finally:
            progress.close()
        result = Result.of(values, errors, options.tol, info, "CCE", "at x_new")
        return result if self._chance is None else replace(result, source=self._chance.at(grid))

    def score_samples(self, x_new: InputsLike) -> NDArray[np.float64]:
        """Return the CCE (q,) at inputs (q, d), which need no outcomes."""
        return self.evaluate(x_new).values

    def witness(self, x_new: InputsLike, y_grid: ArrayLike) -> NDArray[np.float64]:
        """Return the witness h(x, y) (q, g) at inputs (q, d) and outputs (g, k).

        At input x the model puts too little mass near y where h > 0, and too much where h < 0.

        Notes
        -----
        The error of h(x, y) is at most ``sqrt(k(y, y) e (2 v + e))``, where v is the value and e the error
        bound of `evaluate` at x. It can exceed e because output features may omit a component r of the
        difference of the embeddings. This changes the value by only about ``||r||^2 / (2 v)``, but the
        witness by up to ``||r|| sqrt(k(y, y))``. A smaller ``tol`` reduces both.
        """
        return self._witness(x_new, y_grid, self.encoder)

    def witness_of_encoded(self, x_new: InputsLike, y_grid: ArrayLike) -> NDArray[np.float64]:
        """Return the `witness` at inputs (q, d) that are already encoded."""
        return self._witness(x_new, y_grid, None)

    def _witness(
        self, x_new: InputsLike, y_grid: ArrayLike, encoder: Encoder | None
    ) -> NDArray[np.float64]:
        grid = self._grid(x_new, encoder)
        if as_names(y_grid) is not None:
            raise TypeError("y_grid holds text; the numbers of classes, from 0 on, are needed")
        y = as_rows(y_grid, "y_grid", columns=self.output_columns_)
        (y,) = prepared_inputs(self.fitted().y_kernel, y_grid=y.astype(np.float64))
        return self.fitted().witness(grid, y)

    def save(self, path: FilePath) -> None:
        """Write the fitted object to an ``.npz`` file, atomically and without pickle.

        `fastmcmd.load` returns an estimator with the same values, kernels and parameters. It evaluates new
        inputs with the kernels of the fit, and chooses kernels again if it is fitted again;
        ``random_state`` is restored. ``cache_dir``, ``checkpoint``, ``devices`` and ``device_memory_limit``
        belong to the machine and are restored as None. Encoders and kernels made of Python functions cannot
        be saved. The path must not be a file that holds data of the fit.

        Low-rank fits store their rows, too, up to 64 MB. Without them, points unlike all inputs have larger
        error bounds.
        """
        from fastmcmd.estimate.saved import state_of

        check_path(path, "path")
        check_apart(path, "path", self._files)
        storage.save(path, "ConditionalCongruence", state_of(self))

    def __repr__(self) -> str:
        if self._fit is None:
            arguments = {
                name: getattr(self, name)
                for name, one in inspect.signature(type(self).__init__).parameters.items()
                if name != "self" and getattr(self, name) is not one.default
            }
            settings = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
            return f"ConditionalCongruence({settings})"
        fitted = f"x_kernel={self.x_kernel_!r}, y_kernel={self.y_kernel_!r}, lam={self.lam_}"
        return f"ConditionalCongruence({fitted}), fitted\n{self.result_!r}"


def _restored(arrays: dict[str, HostArray], document: dict[str, object], version: int) -> Any:
    """Return the fitted estimator of a saved file."""
    from fastmcmd.estimate.saved import fit_of, parameters_of, read_state

    state = read_state(arrays, document, version)
    estimator = ConditionalCongruence(**parameters_of(state))
    estimator.restore(*fit_of(state, estimator.options()))
    return estimator


storage.register("ConditionalCongruence", _restored)
