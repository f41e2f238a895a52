"""Benchmarks of busbw itself: no test, nothing that judges. docs/bench.md has what they found.

Loops written by hand, without anything of busbw, stand beside its own; so this room, too, may
import a framework.
"""
