"""Turn verdicts and environments into tables, lines of text and documents.

Functions take frozen values and return Tables, which `renderers` turn into lines, or return lines
of text. This package prints nothing, writes no file and judges nothing.
"""
