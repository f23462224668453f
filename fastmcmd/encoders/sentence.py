"""Texts by a model of sentence-transformers."""

from __future__ import annotations

import os

from fastmcmd._base.annotations import AnyArray
from fastmcmd._base.checks import check_flag
from fastmcmd.encoders.items import Items
from fastmcmd.encoders.model import Loaded, ModelEncoder, check_name, imported

__all__ = ["SentenceTransformer"]


class SentenceTransformer(ModelEncoder):
    """Embeddings of texts by a sentence-transformers model, loaded when first called.

    Parameters
    ----------
    name : str
        A model of the Hugging Face hub, or the path of a folder. With ``cache_dir`` a folder is named by
        its path alone: give another ``cache_dir`` when its contents change.
    device : str or torch.device, optional
        Where the model runs; None takes a GPU where torch sees one.
    normalize : bool
        Scale rows to norm 1.
    batch_size, progress, cache_dir
        As of `batched`.

    Raises
    ------
    MissingDependencyError
        sentence-transformers is not installed; raised when the encoder is first called.

    Notes
    -----
    Reimers & Gurevych, *Sentence-BERT* (EMNLP 2019).

    Examples
    --------
    >>> from fastmcmd import encoders
    >>> encoders.SentenceTransformer("all-MiniLM-L6-v2")
    SentenceTransformer('all-MiniLM-L6-v2')
    """

    def __init__(
        self,
        name: str = "all-MiniLM-L6-v2",
        device: object = None,
        *,
        normalize: bool = False,
        batch_size: int = 64,
        progress: bool = False,
        cache_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        self.model = check_name(name, "name")
        self.normalize = check_flag(normalize, "normalize")
        super().__init__(batch_size, progress, cache_dir, device)

    @property
    def name(self) -> str:
        """Model and scaling."""
        scaled = "unit" if self.normalize else "plain"
        return f"sentence_transformers/{self.model}/{scaled}"

    def _load(self) -> Loaded:
        library = imported("sentence_transformers", "sentence-transformers", "text")
        return library.SentenceTransformer(self.model, device=str(self.device))

    def _encode(self, loaded: Loaded, batch: Items) -> AnyArray:
        for item in batch:
            if not isinstance(item, str):
                raise TypeError(f"inputs hold a {type(item).__name__}; strings are needed")
        return loaded.encode(
            list(batch),
            batch_size=len(batch),
            show_progress_bar=False,
            convert_to_numpy=True,
            normalize_embeddings=self.normalize,
        )

    def __repr__(self) -> str:
        return f"SentenceTransformer({self.model!r})"
