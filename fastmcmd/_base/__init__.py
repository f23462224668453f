"""Utilities of all layers: argument checks, arrays, blocks of rows, threads, memory, progress, seeds."""
