"""Chips, slices and links: figures with their sources, and the bandwidth that they allow.

Imports the model and the collectives. Where no trusted figure is known there is none here: no
ceiling is better than an invented one. What was measured is judged elsewhere.
"""
