"""Evaluate rankings and labels: measures, agreement, and their uncertainty."""
