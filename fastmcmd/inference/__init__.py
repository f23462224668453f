"""Conclusions from a congruence error: is it chance, where is the model wrong, and in what way.

Plain functions that return frozen results. The mathematics is in docs/theory.md, section "Inference".
"""
