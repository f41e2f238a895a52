"""The rules of busbw: from measurements and stored times they compute verdicts.

The functions read no file and no clock, and know nothing of pytest: whatever they need is an
argument. All thresholds are in `policy`.
"""
