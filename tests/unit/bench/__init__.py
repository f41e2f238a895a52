"""Tests of the benchmarks: what is made of their figures, and programs of their own."""
