"""Stored baselines: selected by their environment key, checked when read, written at the end.

The folder `baselines/<device kind>[-<cores>c]/<ranks>r[-<mesh>][-<hosts>h<processes>p][-shared]/`
has a file for each framework, collective and strategy. Versions of packages are recorded, and no
baseline is selected by them. This package reads and writes files, judges no case, and starts no
process. The budget (see the glossary) is an argument.
"""
