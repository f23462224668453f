"""Uncertainty Toolbox's users change one import."""

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt

import fastmcmd.compat.uncertainty_toolbox as uct

predictions, stds, y, x = uct.data.synthetic_sine_heteroscedastic(200)

metrics = uct.metrics.get_all_metrics(predictions, stds, y)
print(metrics["avg_calibration"]["rms_cal"], metrics["scoring_rule"]["crps"])

fig, axes = plt.subplots(1, 3, figsize=(15, 5))
uct.viz.plot_xy(predictions, stds, y, x, ax=axes[0])
uct.viz.plot_calibration(predictions, stds, y, ax=axes[1])
uct.viz.plot_intervals_ordered(predictions, stds, y, ax=axes[2])
fig.savefig("uct.png")

exp_props, obs_props = uct.metrics_calibration.get_proportion_lists_vectorized(predictions, stds, y)
recalibrator = uct.recalibration.iso_recal(exp_props, obs_props)
recalibrated = uct.metrics.get_all_metrics(predictions, stds, y, verbose=False)
print(
    uct.metrics_calibration.root_mean_squared_calibration_error(
        predictions, stds, y, recal_model=recalibrator
    )
)
std_recalibrator = uct.recalibration.get_std_recalibrator(predictions, stds, y)
print(std_recalibrator(stds)[:3])
