"""Compare ways of judging by people's labels: who judges most as people do, and at what cost.

A way is a protocol, a text of instructions, a panel, or any other option of `annotate` that differs
from those given. What is compared are pairs of documents that people judged: a way says which of
the two is better by their scores in its ``scores.parquet``, whatever it asked.
"""
