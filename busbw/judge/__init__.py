"""The rules: measurements and baselines in, verdicts out. Pure; thresholds are in `policy`.

Reads no file and no clock, and knows no pytest; what it needs are arguments.
"""
