"""Baselines on disk: found by their Environment key, checked when read, written at the end.

`baselines/<device kind>[-<cores>c]/<ranks>r[-<mesh>][-<hosts>h<processes>p]/` holds one file
per framework, collective and strategy. Versions are recorded and never matched. Reads and
writes files; judges nothing and starts nothing. How much a baseline may lose is an argument.
"""
