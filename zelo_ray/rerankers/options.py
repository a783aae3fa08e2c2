"""Check the options of the built-in rerankers."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, PositiveInt, ValidationError

from zelo_ray.errors import PanelError
from zelo_ray.records import Judge, first_error


class _Known(BaseModel):
    """Each option of a module's ``OPTIONS``; which of them a reranker has, its module says."""

    model_config = ConfigDict(strict=True)

    documents: PositiveInt = 1
    block_size: PositiveInt = 1
    max_length: PositiveInt | None = None
    max_tokens_per_doc: PositiveInt | None = None
    documents_field: str = Field("documents", min_length=1)
    extra_body: dict[str, JsonValue] = {}
    truncation: bool = False
    trust_remote_code: bool = False
    latency: Literal["fast", "slow"] | None = None
    device: str | None = None
    revision: str | None = None


def refuse_wrong_options(name: str, judge: Judge) -> None:
    """Refuse an option whose value it cannot have.

    Args:
        name: the arm, for the error.
        judge: with all its options.

    Raises:
        PanelError: one has another.
    """
    try:
        _Known.model_validate(judge.options)
    except ValidationError as error:
        raise PanelError(f"{name}: reranker_options: {first_error(error)}") from None
