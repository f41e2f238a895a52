"""Reading optimized HLO, the text of a program that XLA compiled, and proofs from this text."""
