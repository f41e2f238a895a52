"""Verdicts, environments and recordings as text, documents and pictures.

Takes values and returns Tables, which `renderers` turn into lines, Charts, which `pictures` draws,
and lines where there is neither; prints nothing, writes no file, judges nothing.
"""
