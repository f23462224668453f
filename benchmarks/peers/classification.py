"""Classification against peers: ``python -m benchmarks.peers.classification``.

A million rows of 100 classes in single precision. What a peer takes longer than half a minute for is
measured with a tenth of the rows, for both (column n).
"""

import warnings

import numpy as np

import fastmcmd as fm
import fastmcmd.classification as c
from benchmarks.peers.timing import best, peak_bytes, report
from fastmcmd import streaming

N, CLASSES = 1_000_000, 100


def problem(n, classes, kind):
    """Return labels and probabilities of a slightly overconfident model."""
    rng = np.random.default_rng(0)
    p = np.empty((n, classes), dtype=kind)
    y = np.empty(n, dtype=np.int64)
    for start in range(0, n, 50_000):
        part = slice(start, min(start + 50_000, n))
        scores = rng.normal(size=p[part].shape) * 2
        y[part] = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
        scores = np.exp(1.2 * scores)
        p[part] = scores / scores.sum(axis=1, keepdims=True)
    return y, p


def main():
    """Print the table."""
    import torch
    from netcal.metrics import ACE, ECE
    from sklearn import metrics as sk
    from torchmetrics.functional import classification as tm

    warnings.simplefilter("ignore")
    torch.set_num_threads(fm.get_num_threads())
    rows = []

    def add(measure, n, ours, peer=None, name="", repeats=3, other_repeats=1, same=None, warm=1):
        seconds, value = best(ours, repeats=repeats, warm=warm)
        row = {"what": measure, "n": n, "fastmcmd s": seconds}
        if peer is not None:
            # A short first run: peers compile nothing.
            other, theirs = best(peer, repeats=other_repeats, warm=warm * int(other_repeats > 1))
            row |= {"peer": name, "peer s": other, "ratio": other / seconds}
            if same is not None:
                row["difference"] = abs(float(value) - float(theirs))
        rows.append(row)

    # Calibration error from confidences, against one pass of bincount over bins that are known.
    rng = np.random.default_rng(1)
    confidence = rng.random(N)
    correct = (rng.random(N) < confidence**1.1).astype(np.int64)
    index = (confidence * 15).astype(np.int64)
    torch_confidence, torch_correct = torch.tensor(confidence), torch.tensor(correct)

    def ours():
        return c.ece(correct, confidence)

    add(
        "ECE from confidences",
        N,
        ours,
        lambda: np.bincount(index, weights=confidence, minlength=15),
        "one np.bincount",
        repeats=50,
        other_repeats=50,
        warm=20,  # two milliseconds: the pages of new arrays cost as much
    )
    fm.set_num_threads(1)
    add(
        "ECE from confidences, 1 thread",
        N,
        ours,
        lambda: np.bincount(index, weights=confidence, minlength=15),
        "one np.bincount",
        repeats=50,
        other_repeats=50,
        warm=20,  # two milliseconds: the pages of new arrays cost as much
    )
    fm.set_num_threads(None)
    add(
        "ECE from confidences",
        N,
        ours,
        lambda: tm.binary_calibration_error(torch_confidence, torch_correct, n_bins=15),
        "torchmetrics",
        repeats=20,
        other_repeats=5,
        same=True,
    )
    add(
        "ECE from confidences",
        N,
        ours,
        lambda: ECE(15).measure(confidence, correct),
        "netcal",
        repeats=5,
        same=True,
    )
    add(
        "AUROC of two classes",
        N,
        lambda: c.auroc(correct, confidence),
        lambda: sk.roc_auc_score(correct, confidence),
        "scikit-learn",
        same=True,
    )
    add("ECE, bins of even weight", N, lambda: c.ece(correct, confidence, binning="mass"))

    y, p = problem(N, CLASSES, np.float32)
    few_y, few = y[: N // 10], p[: N // 10]
    torch_y, torch_p = torch.tensor(y), torch.from_numpy(p)

    add("everything", N, lambda: c.evaluate(y, p, ordered=True), repeats=2)
    peak = peak_bytes(lambda: c.evaluate(y, p, ordered=True))
    rows[-1]["peak MB"] = peak / 1e6
    w = rng.random(N)
    add(
        "everything, weights", N, lambda: c.evaluate(y, p, ordered=True, sample_weight=w), repeats=1
    )
    few_64 = few.astype(np.float64)
    add("everything, float64", N // 10, lambda: c.evaluate(few_y, few_64, ordered=True))

    eps = float(np.finfo(np.float32).eps)
    for measure, mine, name, theirs in [
        ("ECE", lambda: c.ece(y, p), "torchmetrics",
         lambda: tm.multiclass_calibration_error(torch_p, torch_y, CLASSES)),
        ("ECE", lambda: c.ece(y, p), "netcal", lambda: ECE(15).measure(p, y)),
        ("NLL", lambda: c.nll(y, p, clip=eps), "scikit-learn", lambda: sk.log_loss(y, p)),
        ("Brier score", lambda: c.mean_brier_score(y, p), "scikit-learn",
         lambda: sk.brier_score_loss(y, p)),
        ("top 5", lambda: c.top_k_accuracy(y, p, k=5), "scikit-learn",
         lambda: sk.top_k_accuracy_score(y, p, k=5)),
    ]:  # fmt: skip
        add(measure, N, mine, theirs, name, same=True)
    for measure, mine, name, theirs in [
        ("top 5", lambda: c.top_k_accuracy(few_y, few, k=5), "torchmetrics",
         lambda: tm.multiclass_accuracy(torch.from_numpy(few), torch.tensor(few_y), CLASSES,
                                        top_k=5, average="micro")),
        ("AUROC of 100 classes", lambda: c.auroc(few_y, few), "scikit-learn",
         lambda: sk.roc_auc_score(few_y, few, multi_class="ovr")),
        ("AUROC of 100 classes", lambda: c.auroc(few_y, few), "torchmetrics",
         lambda: tm.multiclass_auroc(torch.from_numpy(few), torch.tensor(few_y), CLASSES)),
    ]:  # fmt: skip
        add(measure, N // 10, mine, theirs, name, same=True)
    add("ACE", N // 10, lambda: c.ece(few_y, few, binning="mass"),
        lambda: ACE(15).measure(few, few_y), "netcal, other definition")  # fmt: skip
    for measure, mine in [
        ("accuracy", lambda: c.accuracy(y, p)),
        ("entropy", lambda: c.entropy(p)),
        ("ranked probability score", lambda: c.mean_ranked_probability_score(y, p)),
        ("Brier decomposition", lambda: c.brier_decomposition(y, p)),
        ("class-wise ECE", lambda: c.classwise_ece(y, p)),
        ("adaptive ECE", lambda: c.adaptive_ece(y, p)),
        ("AUROC of 100 classes", lambda: c.auroc(y, p)),
        ("AUROC, histograms", lambda: streaming.AUROC().update(y, p).compute()),
    ]:
        add(measure, N, mine, repeats=2)
    report(rows, ("scikit-learn", "netcal", "torchmetrics", "torch", "numba"))


if __name__ == "__main__":
    main()
