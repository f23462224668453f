"""Tiles on a device with its own memory.

`base` defines the operations of a device, `cuda` implements them with CuPy, and `source` generates the CUDA
sources. `rows`, `layout` and `sweep` schedule the work without any library; tests run them on a simulated
device.
"""
