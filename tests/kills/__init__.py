"""Tests of kills: what is drawn, what it may cost, and what is made of it."""
