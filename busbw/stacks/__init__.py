"""Stacks to measure with: locked as they were measured, and built again from the lock.

`lock` is the file beside the baselines, `interpreter` what one has installed, `wheels` what an
index gives, kept by hash, `build` the environments. Nothing is measured or judged here.
"""
