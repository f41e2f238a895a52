"""Benchmarks of busbw itself; no test, nothing that judges. `python -m bench` writes docs/bench.md.

Loops written by hand, without anything of busbw, stand beside its own; so these rooms, too, may
import a framework.
"""
