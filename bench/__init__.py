"""Benchmarks of busbw itself: what it costs, how often its verdicts err, and what it survives.

Nothing of busbw imports them. docs/bench.md, docs/quiet.md and docs/hosts.md have their results.
"""
