"""Use people's labels in a bake-off that a panel judged.

    frame = build_frame(measure, rankings)              # what is ranked, and the panel's grades
    size = label_sizes(frame)                           # how far a label could move a difference
    order = priorities(query_ids, doc_ids, size, seed)  # the first n of it are a sample of n
    chances = inclusion_probabilities(size, sample_threshold(order, n))
    values = correct_metrics(frame, gains, chances)

These values take the place of the metrics in `significance`.
"""
