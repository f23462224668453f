"""Conclusions from a congruence error: whether it is chance, where the model is wrong, and in what way.

Plain functions that return frozen results. The mathematics is in docs/theory.md, section "Inference".
"""
