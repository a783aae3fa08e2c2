"""Check the values of judges' options: a server or a budget would misread a wrong one."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, PositiveInt, ValidationError

from zelo_ray.errors import PanelError
from zelo_ray.records import Judge, first_error

_CHECKED = ("openai", "anthropic", "gemini", "vllm")
"""Providers whose options are these; what others take, they know themselves."""
_MOST_TOKENS = 10_000_000
_Words = Annotated[str, Field(min_length=1)]


class _Known(BaseModel):
    """Each option of a module's ``OPTIONS``; which of them a judge has, its module says."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    max_output_tokens: Annotated[int, Field(ge=1, le=_MOST_TOKENS)] | None = None
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    reasoning_effort: _Words | None = None
    effort: _Words | None = None
    thinking_level: _Words | None = None
    response_format: Literal["json_schema", "json_object", "none"] = "none"
    token_limit_field: Annotated[str, Field(pattern=r"^(max|num|n)_[a-z_]+$")] = "max_tokens"  # noqa: S105 - of output
    extra_body: dict[str, JsonValue] = {}
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    dtype: _Words = "auto"
    quantization: _Words | None = None
    revision: _Words | None = None
    chat_template_kwargs: dict[str, JsonValue] = {}
    tensor_parallel_size: PositiveInt = 1
    max_model_len: PositiveInt | None = None
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] | None = None


def refuse_wrong_options(judge: Judge, options: Mapping[str, Any]) -> None:
    """Refuse a value that an option cannot have.

    Args:
        judge: whose they are.
        options: all of them.

    Raises:
        PanelError: one has such a value; the message names the judge and the option.
    """
    try:
        if judge.provider in _CHECKED:
            _Known.model_validate(dict(options))
    except ValidationError as error:
        raise PanelError(f"{judge.name}: judge_options: {first_error(error)}") from None
