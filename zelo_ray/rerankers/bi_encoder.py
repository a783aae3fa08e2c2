"""Bi-encoders: a model embeds the query and each document; their similarity is the score."""

from pathlib import Path
from typing import Any

from zelo_ray.records import Judge
from zelo_ray.rerankers import local


def _load(judge: Judge) -> local.LoadedModel:
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - seconds, paid where used

    options = judge.options
    model = SentenceTransformer(
        str(Path(judge.model).expanduser()),
        device=options["device"],
        revision=options["revision"],
        trust_remote_code=options["trust_remote_code"],
    )
    if options["max_length"]:
        model.max_seq_length = options["max_length"]
    how = {"batch_size": options["block_size"], "show_progress_bar": False}
    local.use_all_cores(model.device)

    def score(query: str, documents: list[str]) -> Any:
        # Both methods use the prompts that the model was trained with, if it has any.
        wanted, held = model.encode_query([query], **how), model.encode_document(documents, **how)
        return model.similarity(wanted, held)[0]

    return local.LoadedModel(score, str(model.device))


PROVIDER = local.encoder_provider(_load, slope=10.0)  # cosines: .1 is a clear difference
