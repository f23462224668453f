"""Lay the test images out on t-SNE maps (scikit-learn, one minute).

``python -m examples.papers.lay_out_digits`` writes ``predictions/score_map.npz``.
"""

from __future__ import annotations

import numpy as np
from sklearn.manifold import TSNE

from examples.papers.count_digits import MAPS, rows_of, split
from examples.papers.stored import write


def main() -> None:
    """Lay out the test images of the first trials and write the places."""
    maps = [
        TSNE(random_state=0, init="pca").fit_transform(rows_of(split(trial)[2])[0])
        for trial in range(MAPS)
    ]
    write("score_map", {"places": np.stack(maps).astype(np.float32)})


if __name__ == "__main__":
    main()
