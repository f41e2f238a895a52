"""Benchmarks of busbw itself: its cost, the error rates of its verdicts, and the effects of faults.

busbw does not import this package. docs/bench.md, docs/quiet.md and docs/hosts.md have the results.
"""
