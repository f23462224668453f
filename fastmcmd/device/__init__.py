"""Tiles on a card with its own memory: what a card must do, CUDA through CuPy, and the order of the work.

`base` says what a card must do, `cuda` does it, `source` writes its programs; `rows`, `layout` and `sweep`
are the order of the work, which knows of no library, and runs in tests on a stand-in of NumPy.
"""
