"""Lines and tables for a terminal."""
