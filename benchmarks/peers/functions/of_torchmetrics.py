"""torchmetrics: functions of the same quantities. Tensors are made beforehand for its calls."""

from __future__ import annotations

import fastmcmd as fm
import fastmcmd.classification as c
from benchmarks.peers.functions.pairs import Pair, classes, events, regression
from fastmcmd import metrics

PACKAGES = ("torchmetrics", "torch")
NO_COUNTERPART = {
    "regression: concordance_corrcoef, cosine_similarity, critical_success_index, ...": "not measures here",
    "regression: spearman_corrcoef, kendall_rank_corrcoef": "no rank correlation here",
    "classification: precision, recall, F scores, ...": "of hard labels",
    "classification: average_precision, precision_recall_curve": "only the ROC curve and its area",
}


def pairs(rng, n):
    """Return pairs by name."""
    import torch
    from torchmetrics.functional import classification as tc
    from torchmetrics.functional import regression as tr

    torch.set_num_threads(fm.get_num_threads())
    y, mean, std = regression(rng, n)
    members = mean[:, None] + std[:, None] * rng.normal(size=(n, 20))
    event, p = events(rng, n)
    labels, many = classes(rng, n)
    t_y, t_mean, t_members = torch.tensor(y), torch.tensor(mean), torch.tensor(members)
    t_event, t_p = torch.tensor(event), torch.tensor(p)
    t_labels, t_many = torch.tensor(labels), torch.tensor(many)
    high = {"num_classes": 10}
    return {
        "mean_absolute_error": Pair(
            lambda: metrics.mae(y, mean), lambda: tr.mean_absolute_error(t_mean, t_y)
        ),
        "mean_squared_error": Pair(
            lambda: metrics.rmse(y, mean) ** 2, lambda: tr.mean_squared_error(t_mean, t_y)
        ),
        "mean_squared_error, root": Pair(
            lambda: metrics.rmse(y, mean), lambda: tr.mean_squared_error(t_mean, t_y, squared=False)
        ),
        "symmetric_mean_absolute_percentage_error": Pair(
            lambda: metrics.marpd(y, mean) / 100,
            lambda: tr.symmetric_mean_absolute_percentage_error(t_mean, t_y),
            rtol=1e-5,
            atol=1e-5,
            note="it bounds denominators from below",
        ),
        "r2_score": Pair(lambda: metrics.r2(y, mean), lambda: tr.r2_score(t_mean, t_y)),
        "pearson_corrcoef": Pair(
            lambda: metrics.pearson(y, mean), lambda: tr.pearson_corrcoef(t_mean, t_y), rtol=1e-6
        ),
        "continuous_ranked_probability_score": Pair(
            lambda: metrics.mean_crps(y, members),
            lambda: tr.continuous_ranked_probability_score(t_members, t_y),
            rtol=1e-6,
        ),
        "binary_accuracy": Pair(
            lambda: c.accuracy(event, p), lambda: tc.binary_accuracy(t_p, t_event), rtol=1e-6
        ),
        "binary_auroc": Pair(
            lambda: c.auroc(event, p), lambda: tc.binary_auroc(t_p, t_event), rtol=1e-5
        ),
        "binary_calibration_error": Pair(
            lambda: c.ece(event, p, of="positive"),
            lambda: tc.binary_calibration_error(t_p, t_event),
            rtol=None,
            note="it rounds in single precision",
        ),
        "binary_confusion_matrix": Pair(
            lambda: c.confusion_matrix(event, p), lambda: tc.binary_confusion_matrix(t_p, t_event)
        ),
        "binary_roc": Pair(
            lambda: c.auroc(event, p),
            lambda: tc.binary_roc(t_p, t_event),
            rtol=None,
            note="the area of the curve here",
        ),
        "multiclass_accuracy": Pair(
            lambda: c.accuracy(labels, many),
            lambda: tc.multiclass_accuracy(t_many, t_labels, **high, average="micro"),
            rtol=1e-6,
            note="it does not check that rows sum to one",
        ),
        "multiclass_accuracy, top 3": Pair(
            lambda: c.top_k_accuracy(labels, many, k=3),
            lambda: tc.multiclass_accuracy(t_many, t_labels, **high, average="micro", top_k=3),
            rtol=1e-6,
        ),
        "multiclass_auroc": Pair(
            lambda: c.auroc(labels, many),
            lambda: tc.multiclass_auroc(t_many, t_labels, **high),
            rtol=1e-5,
        ),
        "multiclass_calibration_error": Pair(
            lambda: c.ece(labels, many),
            lambda: tc.multiclass_calibration_error(t_many, t_labels, **high),
            rtol=1e-4,
            atol=1e-5,
        ),
        "multiclass_confusion_matrix": Pair(
            lambda: c.confusion_matrix(labels, many),
            lambda: tc.multiclass_confusion_matrix(t_many, t_labels, **high),
            note="it does not check that rows sum to one",
        ),
    }
