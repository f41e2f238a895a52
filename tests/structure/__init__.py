"""Checks of the source code as a whole: its size and its language, package by package."""
