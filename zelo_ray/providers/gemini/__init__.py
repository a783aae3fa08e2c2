"""Gemini: calls of its API, and its batches."""
