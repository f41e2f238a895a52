"""Tests of numbers as words."""
