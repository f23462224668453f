"""Classes: digits that are rotated more and more, and a classifier that does not notice.

Draws ``docs/rotated_digits.png`` (or the file named as argument) and prints the numbers of
``docs/classification.md``. Needs scikit-learn and matplotlib; takes a few seconds.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from scipy.ndimage import rotate
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import fastmcmd as fm
from fastmcmd.io import write_atomically
from fastmcmd.plots.style import COLOURS, matplotlib, tidy

ANGLES = range(0, 61, 10)
SHOWN_ANGLES = (0, 20, 40, 60)

target = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/rotated_digits.png")
pixels, digits = load_digits(return_X_y=True)
x_train, x, y_train, y = train_test_split(pixels / 16, digits, test_size=0.5, random_state=0)
classifier = LogisticRegression(max_iter=2000).fit(x_train, y_train)

rows = []
print(f"{'degrees':>8}{'accuracy':>10}{'confidence':>12}{'CCE':>8}{'if right':>10}{'p':>8}")
for angle in ANGLES:
    rotated = rotate(x.reshape(-1, 8, 8), angle, axes=(1, 2), reshape=False).reshape(-1, 64)
    p = classifier.predict_proba(rotated)
    test = fm.congruence_test(rotated, y, fm.Categorical(p), y_kernel=fm.Delta(), random_state=0)
    accuracy, confidence = float(np.mean(p.argmax(axis=1) == y)), float(p.max(axis=1).mean())
    rows.append((accuracy, confidence, test.cce, test.null_cce))
    print(
        f"{angle:8d}{accuracy:10.3f}{confidence:12.3f}{test.cce:8.3f}{test.null_cce:10.3f}{test.p_value:8.3g}"
    )

plt = matplotlib()
figure = plt.figure(figsize=(9, 3.6), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=(1, 1.3))
panels = left.subplots(2, 2).ravel()
for angle, panel in zip(SHOWN_ANGLES, panels, strict=True):
    panel.imshow(rotate(x[0].reshape(8, 8), angle, reshape=False), cmap="gray_r", vmin=0, vmax=1)
    panel.set(xticks=[], yticks=[])
    panel.set_title(f"{angle} degrees", fontsize="medium")
ax = right.subplots()
names = ("accuracy", "mean confidence", "CCE", "CCE of a right model")
styles = ({"color": "0.5"}, {"color": "0.5", "linestyle": "--"}, {"color": COLOURS[1], "linewidth": 2},
          {"color": COLOURS[1], "linestyle": ":"})  # fmt: skip
for values, name, style in zip(np.array(rows).T, names, styles, strict=True):
    ax.plot(ANGLES, values, label=name, **style)
ax.set(xlabel="rotation of the test digits, degrees", ylim=(0, 1.02))
ax.legend(frameon=False, fontsize="small", loc="center right")
tidy(ax)
write_atomically(target, lambda file: figure.savefig(file, dpi=110, format="png"))
