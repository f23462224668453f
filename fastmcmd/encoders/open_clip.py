"""Images or texts by a model of open_clip."""

from __future__ import annotations

import os

from fastmcmd._base.annotations import AnyArray
from fastmcmd._base.checks import check_choice, check_flag, is_tensor
from fastmcmd.encoders.items import Items, image_of, paths_of
from fastmcmd.encoders.model import Loaded, ModelEncoder, check_name, imported, weights_name

__all__ = ["OpenCLIP"]


class OpenCLIP(ModelEncoder):
    """Embeddings of images or texts by an open_clip model, loaded when first called.

    Parameters
    ----------
    model : str
        Architecture; the paper's by default.
    pretrained : str or None
        Weights: a tag of open_clip (downloaded once by it), or the path of a file; the paper's by default.
        None: random weights.
    device : str or torch.device, optional
        Where the model runs; None takes a GPU where torch sees one.
    modality : {"image", "text"}
        What the inputs are. Images: paths, PIL images, arrays (h, w, 3) of bytes, or a tensor (n, 3, h, w)
        that is taken as preprocessed. Texts: strings.
    normalize : bool
        Scale rows to norm 1, as in the paper.
    batch_size, progress, cache_dir
        As of `batched`.

    Raises
    ------
    MissingDependencyError
        open_clip is not installed; raised when the encoder is first called.

    Notes
    -----
    Young et al. (arXiv 2405.12412) embed images and texts so: ViT-B-32 trained on LAION-2B, rows of
    norm 1.

    Examples
    --------
    >>> from fastmcmd import encoders
    >>> encoders.OpenCLIP(modality="text", normalize=True)
    OpenCLIP('ViT-B-32', 'laion2b_s34b_b79k', modality='text')
    """

    def __init__(
        self,
        model: str = "ViT-B-32",
        pretrained: str | None = "laion2b_s34b_b79k",
        device: object = None,
        *,
        modality: str = "image",
        normalize: bool = True,
        batch_size: int = 64,
        progress: bool = False,
        cache_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        self.model = check_name(model, "model")
        self.pretrained = check_name(pretrained, "pretrained", optional=True)
        self.modality = check_choice(modality, "modality", ("image", "text"))
        self.normalize = check_flag(normalize, "normalize")
        super().__init__(batch_size, progress, cache_dir, device)

    @property
    def name(self) -> str | None:
        """Model, weights, modality and scaling; None for random weights."""
        if self.pretrained is None:
            return None
        scaled = "unit" if self.normalize else "plain"
        return f"open_clip/{self.model}/{weights_name(self.pretrained)}/{self.modality}/{scaled}"

    def _load(self) -> Loaded:
        library = imported("open_clip", "open_clip_torch", "open-clip")
        model, _, preprocess = library.create_model_and_transforms(
            self.model, pretrained=self.pretrained, device=self.device
        )
        tokenizer = library.get_tokenizer(self.model) if self.modality == "text" else None
        return model.eval(), preprocess, tokenizer

    def _preprocess(self, items: Items) -> Items:
        return paths_of(items) if self.modality == "image" else items

    def _encode(self, loaded: Loaded, batch: Items) -> AnyArray:
        import torch

        model, preprocess, tokenizer = loaded
        if self.modality == "text":
            wrong = next((item for item in batch if not isinstance(item, str)), None)
            if is_tensor(batch) or wrong is not None:
                kind = type(batch if wrong is None else wrong).__name__
                raise TypeError(f"inputs hold a {kind}; strings are needed with modality='text'")
            tokens = tokenizer(list(batch)).to(self.device)
            return model.encode_text(tokens, normalize=self.normalize)
        images = batch
        if not is_tensor(batch):
            images = torch.stack([preprocess(image_of(item)) for item in batch])
        return model.encode_image(images.to(self.device), normalize=self.normalize)

    def __repr__(self) -> str:
        return f"OpenCLIP({self.model!r}, {self.pretrained!r}, modality={self.modality!r})"
