"""What a subsample costs: spread and bias of the CCE from k of n rows, on real data.

Draws ``docs/downsampling.png`` (or the file named as argument) and prints the numbers of
``docs/downsampling.md``. Takes less than a minute on two cores.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

import fastmcmd as fm
from fastmcmd import demo
from fastmcmd.downsampling import METHODS, downsampled_cce
from fastmcmd.io import write_atomically
from fastmcmd.plots.style import COLOURS, matplotlib, tidy

# More repeats where they are cheap: a std from R repeats is off by about 1 / sqrt(2 R), relatively.
REPEATS = {100: 32, 200: 32, 400: 20, 800: 12, 1600: 8, 4000: 6}
SIZES = np.array(list(REPEATS))
FAR_SIZE = 200  # rows of a subsample in the last panel
POISSON, NEGBIN = "Poisson", "negative binomial"

target = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/downsampling.png")
start = time.perf_counter()
data = demo.load()
x, y = data["x"], data["y"]
n = len(x)
models = {
    POISSON: fm.Poisson(data["poisson_mean"]),
    NEGBIN: fm.NegativeBinomial(data["negbin_mean"], data["negbin_dispersion"]),
}
smooth = fm.RBF(1 / (2 * x.shape[1]))
paper = fm.Polynomial(degree=3, gamma=None, coef0=1.0)

full = {
    name: fm.cce(x, y, model, x_kernel=smooth, y_kernel="paper", lam=0.1).values
    for name, model in models.items()
}
estimates = {
    (POISSON, method, size): downsampled_cce(
        x, y, models[POISSON], size, method=method, repeats=REPEATS[size], random_state=0,
        x_kernel=smooth, y_kernel="paper", lam=0.1)
    for method in METHODS
    for size in SIZES
}  # fmt: skip
# The negative binomial has many features: fewer repeats, and none of 4,000 rows.
estimates |= {
    (NEGBIN, method, size): downsampled_cce(
        x, y, models[NEGBIN], size, method=method, repeats=max(4, REPEATS[size] // 4),
        random_state=0, x_kernel=smooth, y_kernel="paper", lam=0.1)
    for method in ("uniform", "stratified")
    for size in SIZES[:-1]
}  # fmt: skip
full_paper = fm.cce(x, y, models[POISSON], x_kernel=paper, y_kernel="paper", lam=0.1).values
paper_estimates = {
    method: downsampled_cce(
        x, y, models[POISSON], FAR_SIZE, method=method, repeats=REPEATS[FAR_SIZE], random_state=0,
        x_kernel=paper, y_kernel="paper", lam=0.1)
    for method in METHODS
}  # fmt: skip

distance = np.linalg.norm(x - x.mean(axis=0), axis=1)
far = np.argsort(distance)[-n // 100 :]

# c: what subsampling adds to the mean of CCE squared, in units of 1/k - 1/n.
print(
    "RBF kernel on inputs                  |       mean CCE               |  CCE at a point, medians"
)
print("model              method         k  R | all rows  bias     std      c |  std     |bias|")
for (name, method, size), one in estimates.items():
    mean = full[name].mean()
    squares = one.values**2 + one.std**2 * (1 - 1 / one.repeats)
    added = np.mean(squares - full[name] ** 2) / (1 / size - 1 / n)
    print(
        f"{name:18} {method:10} {size:5} {one.repeats:2} | {mean:.4f}  {one.mean - mean:+.4f}  "
        f"{one.mean_std:.4f}  {added:+.2f} |  {np.median(one.std):.4f}  "
        f"{np.median(np.abs(one.values - full[name])):.4f}"
    )


one = estimates[POISSON, "uniform", FAR_SIZE]
print(
    f"at the farthest 1 % of inputs, Poisson, uniform, k = {FAR_SIZE}: mean CCE "
    f"{one.values[far].mean():.4f}, from all rows {full[POISSON][far].mean():.4f}"
)


def rms_error(one, exact):
    """Return the root mean square error (q,) of one subsample's estimate."""
    return np.sqrt(one.std**2 + (one.values - exact) ** 2)


print(f"\npolynomial kernel of the paper, Poisson, k = {FAR_SIZE}: rms error (bias)")
print(f"method      median point     farthest 1 % of inputs   mean CCE of all rows "
      f"{full_paper.mean():.4f}, of the farthest {full_paper[far].mean():.4f}")  # fmt: skip
for method, one in paper_estimates.items():
    error, bias = rms_error(one, full_paper), one.values - full_paper
    print(
        f"{method:10}  {np.median(error):.4f} ({np.median(bias):+.4f})  "
        f"{error[far].mean():.4f} ({bias[far].mean():+.4f})  "
        f"mean: bias {one.mean - full_paper.mean():+.4f}, std {one.mean_std:.4f}"
    )

plt = matplotlib()
figure, grid = plt.subplots(2, 2, figsize=(11, 8.4), layout="constrained")
spread, of_mean, bias, edge = grid.flat
style = {
    method: {"color": colour, "marker": marker, "markersize": 5, "label": method}
    for method, colour, marker in zip(METHODS, COLOURS, "osD", strict=False)
}
grey = {"color": "0.5", "linewidth": 5, "alpha": 0.35, "zorder": 0}


def draw(ax, name, method, quantity, **changes):
    """Draw a quantity of the results over the sizes."""
    sizes = [size for size in SIZES if (name, method, size) in estimates]
    values = [quantity(estimates[name, method, size]) for size in sizes]
    ax.plot(sizes, values, **{**style[method], **changes})


law = np.sqrt(1 / SIZES - 1 / n)  # as for the mean of k of n numbers, drawn without replacement
for ax, quantity in (
    (spread, lambda one: np.median(one.std)),
    (of_mean, lambda one: one.mean_std),
):
    for method in METHODS:
        draw(ax, POISSON, method, quantity)
    runs = np.array([quantity(estimates[POISSON, "uniform", size]) for size in SIZES])
    scale = np.exp(np.mean(np.log(runs / law)))
    ax.plot(SIZES, scale * law, **grey, label="in proportion to (1/k − 1/n)$^{1/2}$")
    ax.set(xscale="log", yscale="log", ylabel="std over repeats")
    low, high = ax.get_ylim()
    ticks = [tick for tick in (3e-4, 1e-3, 3e-3, 1e-2, 3e-2) if low <= tick <= high]
    ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
for method in METHODS:
    draw(bias, POISSON, method, lambda one: one.mean / full[POISSON].mean(),
         label=f"{method}, {POISSON}")  # fmt: skip
for method in ("uniform", "stratified"):
    draw(bias, NEGBIN, method, lambda one: one.mean / full[NEGBIN].mean(),
         label=f"{method}, {NEGBIN}", linestyle="--", fillstyle="none")  # fmt: skip
bias.axhline(1, **grey, label="all rows")
bias.set(xscale="log", ylim=(0, None), ylabel="mean CCE / mean CCE of all rows")
for ax in (spread, of_mean, bias):
    ax.set_xlabel(f"rows k of a subsample, of {n:,}")
    ax.set_xticks(SIZES, [f"{size:,}" for size in SIZES])
    ax.minorticks_off()

ranks = np.argsort(np.argsort(distance)) / n * 100
edges = np.array([0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 100])
bins = np.digitize(ranks, edges) - 1
for method, one in paper_estimates.items():
    error = rms_error(one, full_paper)
    heights = [error[bins == index].mean() for index in range(len(edges) - 1)]
    edge.plot((edges[1:] + edges[:-1]) / 2, heights, **style[method])
edge.set(yscale="log", xlabel="inputs from the centre (0) to the farthest (100 %)",
         ylabel="rms error of the CCE")  # fmt: skip
edge.set_yticks([0.05, 0.1, 0.2, 0.4], ["0.05", "0.1", "0.2", "0.4"])
edge.minorticks_off()
spread.set_title("Spread of the CCE at a point (median over points)")
of_mean.set_title("Spread of the mean CCE")
bias.set_title("Bias of the mean CCE: few rows overstate it")
edge.set_title(f"Error by input: the paper's polynomial kernel, k = {FAR_SIZE}")
for ax in grid.flat:
    tidy(ax)
for ax in (spread, bias, edge):
    ax.legend(frameon=False, fontsize=9)
try:
    write_atomically(target, lambda stream: figure.savefig(stream, format="png", dpi=100))
finally:
    plt.close(figure)
print(f"\n{target}, {time.perf_counter() - start:.0f} s")
