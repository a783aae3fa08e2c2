"""``probe``: find what moves a judge that should not.

Documents are drawn, changed in ways that leave their relevance as it is, and judged with their
originals by the same engine as `annotate`. How far judgments move is tested over queries.
"""
