"""Every session that measured, appended: what each case took, how it was judged, and with what.

Append-only files, as strict at the door as baselines; one session's lines are written together.
`files` appends and reads them, `levels` has what they amount to over time; nothing is judged here.
"""
