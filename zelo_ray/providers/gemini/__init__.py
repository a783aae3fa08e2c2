"""Gemini: single calls and batches."""
