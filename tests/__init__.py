"""Tests of zelo_ray, and the helpers that they share."""
