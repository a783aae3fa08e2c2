"""Anthropic: calls of its Messages API, and its batches."""
