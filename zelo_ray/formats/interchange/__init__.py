"""Formats of other tools: TREC, BEIR, MTEB, FastChat and others."""
