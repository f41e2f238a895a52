"""Statistics of samples, launches and sessions, as functions from numbers to numbers.

The functions judge nothing. Thresholds of the rules for verdicts are passed in as arguments.
"""
