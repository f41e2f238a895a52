"""Verdicts and environments as text and documents.

Takes values and returns Tables, which `renderers` turn into lines, and lines where there is none;
prints nothing, writes no file, judges nothing.
"""
