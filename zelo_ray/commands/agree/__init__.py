"""Compare judges with people and with each other."""
