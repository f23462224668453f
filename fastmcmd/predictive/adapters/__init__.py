"""Distributions of other libraries as ours. `convert` is the one place that decides."""
