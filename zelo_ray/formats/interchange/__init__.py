"""Formats of other tools: TREC, BEIR, MTEB and others."""
