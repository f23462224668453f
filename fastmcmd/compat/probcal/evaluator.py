"""The published evaluator of torch models: CCE and regression ECE over bootstrap samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import AnyArray, HostArray, Json
from fastmcmd._base.checks import as_array, as_rows, check_count, check_flag, quote
from fastmcmd.compat.probcal.bootstrap import (
    LEVELS,
    CCEResults,
    CCESettings,
    as_tensors,
    cce_results,
    cce_values,
)
from fastmcmd.compat.probcal.regression_ece import compute_regression_ece
from fastmcmd.io import Archive, write_atomically

if TYPE_CHECKING:
    import torch
    from matplotlib.figure import Figure

__all__ = [
    "CalibrationEvaluator", "CalibrationEvaluatorSettings", "CalibrationResults", "DatasetType",
    "ECEResults", "ECESettings",
]  # fmt: skip

Array = NDArray[np.float64]

_PANELS = ("Data", "CCE (Mean)", "CCE (Std)")
_SIZE = 224  # of images, as published


class DatasetType(Enum):
    """The type of a model's inputs: rows of a table, or images or text, which are embedded first."""

    TABULAR = "tabular"
    IMAGE = "image"
    TEXT = "text"


@dataclass
class ECEResults:
    """Regression ECE over bootstrap samples: mean, spread and quantiles."""

    mean_ece: float
    std_ece: float
    quantiles: dict[str, Any]


@dataclass
class CalibrationResults:
    """The result of `CalibrationEvaluator`.

    Attributes
    ----------
    targets : ndarray (n,)
        Outcomes at the points.
    input_grid_2d : ndarray (n, 2)
        Projection of the points to a plane; empty for tabular inputs.
    cce : CCEResults
    ece : ECEResults
    """

    targets: HostArray
    input_grid_2d: HostArray
    cce: CCEResults
    ece: ECEResults

    def save(self, filepath: str | Path) -> None:
        """Write the results to a ``.npz`` file (the published ``.pt`` is a pickle, which can run code)."""
        if not str(filepath).endswith(".npz"):
            raise ValueError(f"filepath is {str(filepath)!r}; a name that ends in .npz is needed")
        arrays = {"targets": self.targets, "input_grid_2d": self.input_grid_2d}
        for part in ("cce", "ece"):
            for name, value in asdict(getattr(self, part)).items():
                items = value.items() if isinstance(value, dict) else [("", value)]
                arrays.update({f"{part}/{name}/{key}": np.asarray(one) for key, one in items})
        write_atomically(filepath, lambda stream: np.savez(stream, **arrays))  # type: ignore[arg-type]

    @staticmethod
    def load(filepath: str | Path) -> CalibrationResults:
        """Return results that `save` wrote, with NumPy arrays.

        Raises
        ------
        ValueError
            The file is damaged, or holds something else.
        OSError
            The file cannot be opened.
        """
        with Archive(filepath, "filepath") as archive:
            arrays = archive.arrays()
        parts: dict[str, Json] = {"cce": {}, "ece": {}}
        try:
            for path, array in arrays.items():
                if array.dtype.kind not in "biuf":
                    raise TypeError(f"{path} has dtype {array.dtype}; numbers are needed")
                part, _, member_path = path.partition("/")
                name, _, key = member_path.partition("/")
                value = array if array.ndim else array.item()
                if key:
                    parts[part].setdefault(name, {})[key] = value
                elif member_path:
                    parts[part][name] = value
            cce, ece = CCEResults(**parts["cce"]), ECEResults(**parts["ece"])
            return CalibrationResults(arrays["targets"], arrays["input_grid_2d"], cce, ece)
        except (LookupError, TypeError, AttributeError) as error:
            raise ValueError(
                f"filepath ({filepath}) is not a saved CalibrationResults: {error}"
            ) from None


@dataclass
class ECESettings:
    """Settings of the regression ECE, with the published names and defaults."""

    num_bins: int = 50
    weights: str = "frequency"
    alpha: float = 1.0


def _device() -> Any:
    import torch

    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@dataclass
class CalibrationEvaluatorSettings:
    """Settings of the evaluator, with the published names and defaults."""

    dataset_type: DatasetType = DatasetType.IMAGE
    device: Any = field(default_factory=_device)
    num_bootstrap_samples: int = 10
    cce_settings: CCESettings = field(default_factory=CCESettings)
    ece_settings: ECESettings = field(default_factory=ECESettings)


class CalibrationEvaluator:
    """Mean and spread of CCE and ECE of a torch model on a data module, as published.

    Parameters
    ----------
    settings : CalibrationEvaluatorSettings, optional
        The published settings and defaults.
    encoder : callable, optional
        Function from a batch of inputs to vectors (m, d). Default: tabular inputs are used unchanged;
        images and text are encoded by the CLIP model ViT-B-32 of ``open_clip``.

    Notes
    -----
    The model needs ``predict``, ``sample`` and ``predictive_dist``, the data module ``test_dataloader``
    and, with ``use_val_split_for_S``, ``val_dataloader``: batches of inputs and targets. Each input is
    encoded and predicted once. Random numbers come from torch, so ``torch.manual_seed`` fixes them; their
    order differs from the published one.

    Examples
    --------
    >>> from fastmcmd.compat.probcal import CalibrationEvaluator
    >>> evaluator = CalibrationEvaluator(settings)              # doctest: +SKIP
    >>> results = evaluator(model, data_module)                 # doctest: +SKIP
    >>> results.cce.mean_cce_bar, results.cce.std_cce_bar       # doctest: +SKIP
    """

    def __init__(
        self,
        settings: CalibrationEvaluatorSettings | None = None,
        encoder: Callable[[object], AnyArray] | None = None,
    ) -> None:
        self.settings = CalibrationEvaluatorSettings() if settings is None else settings
        self.device = self.settings.device
        self._encoder = encoder

    def __call__(self, model: object, data_module: object) -> CalibrationResults:
        """Return the results of a model.

        Parameters
        ----------
        model : object
            The published ``ProbabilisticRegressionNN``, or an object with its methods.
        data_module : object
            The published ``ProbcalDataModule``, or an object with its loaders.
        """
        import torch

        with torch.inference_mode():
            return self._evaluated(model, data_module)

    def _evaluated(self, model: Any, data_module: Any) -> CalibrationResults:
        import torch

        settings = self.settings
        split = check_flag(settings.cce_settings.use_val_split_for_S, "use_val_split_for_S")
        samples = check_count(settings.num_bootstrap_samples, "num_bootstrap_samples", least=2)
        if hasattr(model, "to"):
            model.to(self.device)
        for prepare, arguments in (("prepare_data", ()), ("setup", ("",))):
            getattr(data_module, prepare, lambda *_: None)(*arguments)
        if hasattr(data_module, "clear_bootstrap_indices"):
            for name in ("val", "test") if split else ("test",):
                data_module.clear_bootstrap_indices(name)
        test = self._read_split(model, data_module.test_dataloader())
        sample = self._read_split(model, data_module.val_dataloader()) if split else test
        repeats = check_count(settings.cce_settings.num_mc_samples, "num_mc_samples")

        def draw(rows: NDArray[np.intp]) -> Array:
            outputs = sample.outputs[torch.as_tensor(rows, device=sample.outputs.device)]
            outcomes = model.sample(outputs, num_samples=repeats)
            outcomes = as_array(outcomes, "what model.sample returned")
            return outcomes.astype(np.float64).reshape(len(rows), repeats, -1)

        rows = [_resampled(len(sample.targets)) for _ in range(samples)]
        targets = sample.targets.reshape(len(sample.targets), -1)
        values = cce_values(
            test.x, sample.x, targets, rows, draw, settings.cce_settings, 1e-5, None,
            as_tensors(self.device),
        )  # fmt: skip
        ece = np.array(
            [self._ece(model, test, _resampled(len(test.targets))) for _ in range(samples)]
        )
        cce = cce_results(values)
        quantiles = np.quantile(ece, [float(level) for level in LEVELS])
        return CalibrationResults(
            targets=test.targets,
            input_grid_2d=self._plane(test.x),
            cce=CCEResults(
                torch.as_tensor(cce.expected_values, dtype=torch.float32),
                torch.as_tensor(cce.stdevs, dtype=torch.float32),
                {k: torch.as_tensor(v, dtype=torch.float32) for k, v in cce.quantiles.items()},
                cce.mean_cce_bar,
                cce.std_cce_bar,
            ),
            ece=ECEResults(
                float(ece.mean()),
                float(ece.std(ddof=1)),
                {level: float(q) for level, q in zip(LEVELS, quantiles, strict=True)},
            ),
        )

    def _read_split(self, model: Any, loader: Any) -> _Split:
        """Return inputs as vectors, targets and the outputs of the model for all batches of a loader."""
        import torch

        x, targets, outputs = [], [], []
        for inputs, values in loader:
            inputs = inputs.to(self.device) if hasattr(inputs, "to") else inputs
            x.append(as_array(self._encoded(inputs), "the encoded inputs"))
            targets.append(as_array(values, "the targets"))
            outputs.append(model.predict(inputs))
        return _Split(
            as_rows(np.concatenate(x), "the encoded inputs"),
            np.concatenate(targets).astype(np.float64),
            torch.cat(outputs, dim=0),
        )

    def _encoded(self, inputs: object) -> AnyArray:
        if self._encoder is None:
            kind = self.settings.dataset_type
            if not isinstance(kind, Enum):
                raise TypeError(f"dataset_type is {quote(kind)}; a DatasetType is needed")
            self._encoder = _clip(kind.value, self.device) if kind.value != "tabular" else _as_it_is
        return self._encoder(inputs)

    def _plane(self, x: HostArray) -> HostArray:
        if self.settings.dataset_type.value == "tabular":
            return np.array([])
        from fastmcmd.encoders.model import imported

        manifold = imported("sklearn.manifold", "scikit-learn", "projection")
        return np.asarray(manifold.TSNE().fit_transform(x))

    def _ece(self, model: Any, test: _Split, rows: NDArray[np.intp]) -> float:
        import torch

        settings = self.settings.ece_settings
        outputs = test.outputs[torch.as_tensor(rows, device=test.outputs.device)]
        predicted = model.predictive_dist(outputs)
        return compute_regression_ece(
            test.targets[rows], predicted, settings.num_bins, settings.weights, settings.alpha
        )

    @staticmethod
    def plot_cce_results(
        results: CalibrationResults, gridsize: int = 100, show: bool = False
    ) -> Figure:
        """Plot targets, mean CCE and its spread over the plane of the inputs.

        Parameters
        ----------
        results : CalibrationResults
            Results with ``input_grid_2d``, which tabular inputs do not have.
        gridsize : int
            Number of interpolation points along each axis.
        show : bool
            Whether to call ``plt.show()``.
        """
        from scipy.interpolate import griddata

        from fastmcmd.plots.style import matplotlib

        plane = np.asarray(results.input_grid_2d)
        if plane.ndim != 2:
            raise ValueError(
                "results has no input_grid_2d, as of tabular inputs; set it to two columns (n, 2) of them"
            )
        size = check_count(gridsize, "gridsize", least=2)
        plt = matplotlib()
        figure, axes = plt.subplots(1, 3, figsize=(11, 3))
        low, high = plane.min(axis=0), plane.max(axis=0)
        across, up = np.mgrid[low[0] : high[0] : size * 1j, low[1] : high[1] : size * 1j]
        values = results.targets, results.cce.expected_values, results.cce.stdevs
        for axis, title, value in zip(axes, _PANELS, values, strict=True):
            heights = griddata(plane, np.asarray(value), (across, up), method="linear")
            axis.set_title(title)
            figure.colorbar(axis.contourf(across, up, heights, levels=5, cmap="viridis"), ax=axis)
        figure.tight_layout()
        if show:
            plt.show()
        return figure


@dataclass(frozen=True, eq=False)
class _Split:
    """Rows of a split: inputs (n, d), targets (n,) and the outputs (n, ...) of the model."""

    x: HostArray
    targets: Array
    outputs: torch.Tensor


def _resampled(n: int) -> NDArray[np.intp]:
    """Return n rows drawn with replacement, by the random numbers of torch."""
    import torch

    return torch.randint(n, (n,)).numpy().astype(np.intp)


def _as_it_is(inputs: object) -> AnyArray:
    return inputs


def _clip(kind: str, device: object) -> Callable[[Any], AnyArray]:
    """Return the published encoder of images or of tokens of text."""
    from fastmcmd.encoders.model import imported

    open_clip = imported("open_clip", "open_clip_torch", "open-clip")
    model = open_clip.create_model_and_transforms(
        "ViT-B-32", pretrained="laion2b_s34b_b79k", device=device
    )[0]
    if kind == "text":
        return partial(model.encode_text, normalize=True)
    resize = imported("torchvision.transforms", "torchvision", "vision").Resize(size=_SIZE)
    return lambda inputs: model.encode_image(resize(inputs), normalize=True)
