"""Metrics of test sets that pass by in batches."""
