"""Input lines and output tables: what goes into a run and what comes out of it."""
