"""Turn verdicts and environments into tables, lines of text and documents.

Functions return lines of text or Tables. The functions in `RENDERERS` of `busbw.report.table` turn
a Table into lines of text. This package prints nothing, writes no file and judges nothing.
"""
