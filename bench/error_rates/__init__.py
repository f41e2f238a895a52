"""How often the rule against stored times errs, on simulated devices and on recorded sessions."""
