"""Use people's labels in a bake-off that a panel judged.

    frame = frame_of(measure, rankings)                 # ranks of documents, and the panel's grades
    size = sizes(frame)                                 # how much a label could move a difference
    order = priorities(query_ids, doc_ids, size, seed)  # the first n of it are a sample of n
    values = corrected(frame, gains, inclusion(size, threshold))

These values take the place of the metrics, so that every interval and test of `significance`
applies to them, too.
"""
