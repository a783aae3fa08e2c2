"""Compare protocols at equal cost: which agrees most with people, and what it costs.

An item is a pair of documents that people judged. A protocol's verdict on it is which of the two
has the higher score in its ``scores.parquet``, whatever it asked; an item without scores is not
judged, and neither right nor wrong.
"""
