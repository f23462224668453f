"""Conversion of distributions from other libraries. `convert` decides which adapter applies."""
