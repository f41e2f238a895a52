"""Count errors of the rule against stored times, on simulated devices and recorded sessions."""
