"""Stacks to measure with: locked as they were measured, and built again from the lock.

`lock` is the file beside the baselines, `interpreter` what one has installed, `build` the wheels of
an index, kept by hash, and the environments. Nothing is measured or judged here.
"""
