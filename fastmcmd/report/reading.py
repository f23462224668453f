"""How each number is read, in a sentence. docs/metrics.md has formulas and sources."""

from __future__ import annotations

__all__ = ["READING"]

READING = {
    "mae": "Typical size of an error of the predicted mean, in units of y.",
    "rmse": "As the mean absolute error, with large errors counting more; in units of y.",
    "median_absolute_error": "Half of the errors are smaller; a few large ones do not change it.",
    "marpd": "Error in per cent of the size of outcome and prediction, from 0 to 200.",
    "bias": "Mean of prediction minus outcome: above 0, predictions are too high on average.",
    "r2": "Share of the variance of y that the predicted means explain: 1 is all; below 0 the mean of "
    "y would predict better.",
    "pearson": "1: outcomes rise with predicted means along a line; 0: no linear relation. Blind to "
    "bias and scale.",
    "nll": "Minus the log of the density or probability predicted for what came. Compares models of "
    "the same outcomes; of continuous ones it depends on the unit of y. A single surprise can "
    "dominate it, and an outcome held impossible makes it infinite.",
    "mean_crps": "Distance between predicted distribution and outcome, in units of y; the mean absolute "
    "error of a prediction without spread. Less moved by single surprises than the likelihood.",
    "mean_check_score": "Pinball loss of predicted quantiles, averaged over levels: about half "
    "of the CRPS.",
    "mean_interval_score": "Width of the central interval, plus a penalty for outcomes outside it; in "
    "units of y.",
    "mean_weighted_interval_score": "Interval scores of several levels and the error of the median, "
    "weighted to come near the CRPS.",
    "mean_dawid_sebastiani": "A score of mean and variance only: the log variance plus the squared error "
    "in predicted standard deviations.",
    "mean_energy_score": "The CRPS of vectors of outputs.",
    "mean_variogram_score": "Whether the outputs of a row differ from each other as predicted: sees wrong "
    "correlations.",
    "regression_ece": "Mean absolute difference between stated shares of quantiles and the shares of "
    "outcomes below them.",
    "rms_calibration_error": "Typical difference between the stated share of a central interval and the "
    "share of outcomes inside.",
    "mean_absolute_calibration_error": "The same as a mean of absolute differences.",
    "miscalibration_area": "Area between the curve of these shares and the diagonal: 0 to 0.5.",
    "coverage": "Share of outcomes inside the central interval: compare with the level it is stated for. "
    "Above: too wide. Below: too narrow.",
    "ence": "Relative difference between predicted spread and actual error in bins of predicted "
    "variance. Compare with what is expected if calibrated.",
    "null_ence": "What a calibrated model would have on average in a sample of this size.",
    "uce": "Difference between predicted variance and squared error in bins; in squared units of y.",
    "sharpness": "How wide predictions are, in units of y. Small is good only where calibration is, too.",
    "mean_interval_width": "How wide central intervals are, in units of y. Small is good only where "
    "coverage is right.",
    "variance_variation": "Spread of predicted standard deviations relative to their mean: 0 where all "
    "predictions are equally wide, and then ENCE says little.",
    "mean_cce": "Distance between predicted and true distribution, averaged over inputs. Without "
    "units; compare models of the same data, kernels and lam only.",
    "max_cce": "The same at the input where it is largest.",
}
