"""Turn verdicts and environments into tables, lines of text and documents.

Functions take frozen values and return lines of text or Tables, which the functions in `RENDERERS`
of `busbw.report.table` turn into lines. This package prints nothing, writes no file and judges
nothing.
"""
