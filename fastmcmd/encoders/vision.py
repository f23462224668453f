"""Images by a classifier of torchvision, without its last layer."""

from __future__ import annotations

import os
from typing import Any

from fastmcmd._base.annotations import AnyArray
from fastmcmd._base.checks import is_tensor
from fastmcmd.encoders.items import Items, image_of, paths_of
from fastmcmd.encoders.model import Loaded, ModelEncoder, check_name, imported

__all__ = ["Torchvision"]


class Torchvision(ModelEncoder):
    """The input of the last linear layer of a torchvision classifier, which is loaded when first called.

    Parameters
    ----------
    name : str
        A classification model of torchvision, such as "resnet50" or "vit_b_16".
    weights : str or None
        Name of pretrained weights (downloaded once by torchvision); "DEFAULT" are its best. None: random
        weights.
    device : str or torch.device, optional
        Where the model runs; None takes a GPU where torch sees one.
    batch_size, progress, cache_dir
        As of `batched`.

    Raises
    ------
    MissingDependencyError
        torchvision is not installed; raised when the encoder is first called.
    ValueError
        The model has no linear layer.

    Notes
    -----
    Inputs are paths, PIL images, arrays (h, w, 3) of bytes, or a tensor (n, 3, h, w) of bytes or of floats
    in [0, 1]. All are resized and normalised by the transforms of the weights; with random weights
    by those of ``weights="DEFAULT"``.

    Examples
    --------
    >>> from fastmcmd import encoders
    >>> encoders.Torchvision("resnet50")
    Torchvision('resnet50', 'DEFAULT')
    """

    def __init__(
        self,
        name: str = "resnet50",
        weights: str | None = "DEFAULT",
        device: object = None,
        *,
        batch_size: int = 64,
        progress: bool = False,
        cache_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        self.model = check_name(name, "name")
        self.weights = check_name(weights, "weights", optional=True)
        super().__init__(batch_size, progress, cache_dir, device)

    @property
    def name(self) -> str | None:
        """Model and weights; None for random ones."""
        if self.weights is None:
            return None
        if self.weights != "DEFAULT":
            return f"torchvision/{self.model}/{self.weights}"
        # What DEFAULT means changes between versions of torchvision.
        try:
            from importlib.metadata import version

            return f"torchvision/{self.model}/DEFAULT-{version('torchvision')}"
        except ModuleNotFoundError:  # reported when the model is loaded
            return f"torchvision/{self.model}/DEFAULT"

    def _load(self) -> Loaded:
        models = imported("torchvision.models", "torchvision", "vision")
        released = models.get_model_weights(self.model)
        weights = getattr(released, self.weights or "DEFAULT", None)
        if weights is None:
            names = ", ".join(repr(entry.name) for entry in released)
            raise ValueError(
                f"weights is {self.weights!r}; None, 'DEFAULT' or one of {names} is needed for {self.model}"
            )
        model = models.get_model(self.model, weights=None if self.weights is None else weights)
        return _headless(model, self.model).to(self.device).eval(), weights.transforms()

    def _preprocess(self, items: Items) -> Items:
        return paths_of(items)

    def _encode(self, loaded: Loaded, batch: Items) -> AnyArray:
        import torch

        model, transform = loaded
        if is_tensor(batch):
            return model(transform(batch).to(self.device))
        images = torch.stack([transform(image_of(item)) for item in batch])
        return model(images.to(self.device))

    def __repr__(self) -> str:
        return f"Torchvision({self.model!r}, {self.weights!r})"


def _headless(model: Any, name: str) -> Any:
    """Return the model with its last linear layer, the classifier, replaced by the identity."""
    import torch

    linear = [path for path, module in model.named_modules() if isinstance(module, torch.nn.Linear)]
    if not linear:
        raise ValueError(
            f"torchvision's {name!r} has no linear layer that could be left out; use encoders.batched with "
            "a function of your own"
        )
    parent, _, last = linear[-1].rpartition(".")
    setattr(model.get_submodule(parent), last, torch.nn.Identity())
    return model
