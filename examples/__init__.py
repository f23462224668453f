"""Examples; those of the papers are modules: ``python -m examples.papers``."""
