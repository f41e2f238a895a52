"""Stored baselines: found by their environment key, checked when read, written at the end.

The folder `baselines/<device kind>[-<cores>c]/<ranks>r[-<mesh>][-<hosts>h<processes>p][-shared]/`
has a file for each framework, collective and strategy. Versions are recorded and never matched.
This package reads and writes files. It judges no case and starts no process. The budget is an
argument.
"""
