"""Experiments of the papers behind the measures, claim by claim: ``python -m examples.papers``."""
