"""Choose how to ask judges on half of the labelled queries, and test that on the other half.

The best of several candidates looks better than it is on the very queries on which it was chosen.
So queries are split by a hash of their texts: candidates are chosen on the first half, and one test
on the second half says whether the chosen one is better than what is as it is.
"""
