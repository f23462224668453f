"""Integrals, inverses and compiled loops behind the distributions."""
