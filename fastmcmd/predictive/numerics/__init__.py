"""Integrals, inverses and compiled loops that the distributions use."""
