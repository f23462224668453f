"""Benchmarks for the page of history: calls that commits of all ages understand."""
