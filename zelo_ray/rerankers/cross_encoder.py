"""Cross-encoders: a model reads the query and a document together, and gives one number.

The score is the model's logit: a sigmoid would round the scores of very good documents to 1.
"""

from pathlib import Path
from typing import Any

from zelo_ray.records import Judge
from zelo_ray.rerankers import local


def _load(judge: Judge) -> local.LoadedModel:
    from sentence_transformers import CrossEncoder  # noqa: PLC0415 - seconds, paid where it is used
    from torch.nn import Identity  # noqa: PLC0415 - paid where it is used

    options = judge.options
    model = CrossEncoder(
        str(Path(judge.model).expanduser()),
        max_length=options["max_length"],
        device=options["device"],
        revision=options["revision"],
        trust_remote_code=options["trust_remote_code"],
        activation_fn=Identity(),
    )
    local.use_all_cores(model.device)

    def score(query: str, documents: list[str]) -> Any:
        pairs = [(query, document) for document in documents]
        return model.predict(pairs, batch_size=options["block_size"], show_progress_bar=False)

    return local.LoadedModel(score, str(model.device))


PROVIDER = local.encoder_provider(_load, slope=0.5)  # logits: the tanh of half is logistic
