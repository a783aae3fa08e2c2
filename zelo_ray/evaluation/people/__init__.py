"""Use people's labels in a contest that a panel judged.

    frame = frame_of(measure, rankings)                 # who ranks what where, and the panel's word
    size = sizes(frame)                                 # how much a label could move a difference
    order = priorities(query_ids, doc_ids, size, seed)  # the first n of it are a sample of n
    values = corrected(frame, gains, inclusion(size, threshold))

The values of a query stand where its metrics stood, so that every interval and test of
`significance` holds for them, too.
"""
