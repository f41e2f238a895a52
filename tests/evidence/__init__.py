"""Tests of the evidence: recordings, rules and what is made of them."""
