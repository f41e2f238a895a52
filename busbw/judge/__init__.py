"""The judge of busbw: rules that compute verdicts from measurements and stored times.

The functions read no file and no clock, and know nothing of pytest: their arguments are their only
input. All thresholds are in `policy`.
"""
