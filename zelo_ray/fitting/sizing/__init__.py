"""Estimate the results of a plan of calls by simulation: no call is made."""
