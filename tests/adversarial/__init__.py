"""Tests with damaged input, faults and misuse."""
