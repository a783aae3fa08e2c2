"""Define the options of `bakeoff`."""

from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, model_validator

from zelo_ray.options.base import FILES, MEASURING, NO_FLAG, RUNNING, OptionGroup
from zelo_ray.options.judging import AskingOptions
from zelo_ray.options.places import NamedPath, Place

_RANKING = OptionGroup("rerankers")
_Names = Annotated[
    tuple[str, ...], BeforeValidator(lambda names: (names,) if isinstance(names, str) else names)
]


class BakeoffOptions(AskingOptions):
    """Options of `bakeoff`."""

    usage: ClassVar[str] = "bakeoff --truth FILE --rerankers R... --out DIR"

    truth: Annotated[Place, FILES] = Field(
        description="relevance judgments: the --out of annotate, annotated.jsonl, scores.parquet, "
        "TREC qrels, or a BEIR directory",
    )
    pools: Annotated[tuple[Place, ...], FILES] = Field(
        (),
        description="the documents to rank, as the input of annotate; without it, those of the "
        "truth",
    )
    runs: Annotated[tuple[NamedPath, ...], FILES] = Field(
        (),
        description="runs made elsewhere: TREC, runs.parquet, or annotated JSONL; NAME=FILE names "
        "one",
    )
    human: Annotated[Place | None, FILES] = Field(
        None,
        description="people's labels, by which the truth is corrected: the --out of label, or a "
        "table of query_id, doc_id, grade and probability",
    )
    rerankers: Annotated[tuple[str, ...], _RANKING] = Field(
        (),
        description="such as original, bm25, cohere:rerank-v5.0-pro, cross-encoder:PATH, "
        "listwise:openai:gpt-6-luna, my_module:MyClass; NAME=... to name one",
    )
    reranker_options: Annotated[dict[str, dict[str, Any]], _RANKING] = Field(
        default_factory=dict,
        description="by reranker: what changes its scores (a constructor's arguments ...)",
    )
    document_tokens: Annotated[int | None, _RANKING] = Field(
        None,
        ge=16,
        description="tokens of a document that a reranker sees; without it, all, but 2,000 for "
        "listwise and pointwise",
    )
    num_gpus: Annotated[dict[str, float], RUNNING, NO_FLAG] = Field(
        default_factory=dict, description="by reranker: GPUs for each of its actors"
    )
    measures: Annotated[tuple[str, ...], MEASURING] = Field(
        (),
        description="as ir_measures writes them, or your own as my_module:MEASURE@10, the leading "
        "one first; without it, what suits the truth",
    )
    baseline: Annotated[str | None, MEASURING] = Field(
        None,
        min_length=1,
        description="a ranker or run file that no other ranker may be worse than; exit status "
        "0: none is worse, 4: one is, 3: not enough data",
    )
    margin: Annotated[float, MEASURING] = Field(
        0.01,
        ge=0,
        allow_inf_nan=False,
        description="with baseline: the largest tolerable loss of the leading measure",
    )
    resamples: Annotated[int, MEASURING, NO_FLAG] = Field(
        10_000, ge=100, description="samples of queries, for intervals and tests"
    )
    label_draws: Annotated[int, MEASURING, NO_FLAG] = Field(
        200, ge=0, description="samples of the labels, where the truth has standard errors"
    )
    confidence: Annotated[float, MEASURING, NO_FLAG] = Field(
        0.95, gt=0, lt=1, description="confidence level of intervals"
    )
    write_annotated: Annotated[bool, FILES] = Field(
        False, description="write the pools with each ranker's scores, too"
    )
    slices: Annotated[tuple[str, ...], MEASURING] = Field(
        (), description="show results by these fields of queries, too"
    )
    families: Annotated[dict[str, _Names], MEASURING, NO_FLAG] = Field(
        default_factory=dict,
        description="by ranker or judge, its model families, such as gpt, if its name does not "
        "tell (judges favour rankers of their family); truth: those of qrels that "
        "models made",
    )

    @model_validator(mode="after")
    def _gate_is_sure_of_something(self) -> "BakeoffOptions":
        # Options from a record always have a margin.
        if self.baseline is None and self.margin != type(self).model_fields["margin"].default:
            raise ValueError("margin: needs baseline, the ranker that others are compared with")
        if self.baseline and self.confidence <= 0.5:
            raise ValueError("confidence: with baseline, must be above 0.5")
        return self
