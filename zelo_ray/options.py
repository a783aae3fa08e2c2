"""Define what options of commands share, and the options of commands that ask models.

A field is the flag ``--field-name``, the YAML key ``field_name`` and the keyword ``field_name``.
Flags and keywords override the file; nothing else sets an option.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo

from zelo_ray.errors import OptionError
from zelo_ray.names import describe_missing_library, did_you_mean, split_name
from zelo_ray.records import first_error

FROM_USER = "given"
"""The context of validation of options from a user. Options from a record already have the texts,
which must not be taken for names of files."""
_A_FILE = re.compile(  # a URL or a path, or up to three words that end as files do
    r"file://.+|[\w+.-]+:(:|//)\S+|(/|\.{1,2}/|~/|[a-z]:[\\/]).*|"
    r"(\S+ ){0,2}\S*\.(txt|text|md|markdown|rst|ya?ml|jsonl?|html?|pdf|docx?|csv|tsv)",
    re.IGNORECASE,
)
_LONGEST_TEXT = 100_000  # characters of a text that is part of every prompt


@dataclass(frozen=True, slots=True)
class OptionGroup:
    """The heading under which the help of a command shows an option."""

    title: str
    last: bool = False
    """whether it is shown below the groups of the command itself"""


FILES = OptionGroup("input and output")
JUDGING = OptionGroup("judging")
MEASURING = OptionGroup("measuring")
MONEY = OptionGroup("money and limits")
RUNNING = OptionGroup("running")
OTHERS = OptionGroup("options")
NO_FLAG = "no flag"
"""In the metadata of an option that few need: it is set in a file, or in Python."""


def option(
    default: Any, group: OptionGroup, description: str, *, flag: bool = True, **limits: Any
) -> Any:
    """Declare an option; the default ``...`` must be given, and ``limits`` are those of `Field`."""
    field: FieldInfo = Field(default, description=description, **limits)
    field.metadata += [group] if flag else [group, NO_FLAG]
    return field


def group_of(field: FieldInfo) -> OptionGroup:
    """Return the group that an option declares."""
    return next((each for each in field.metadata if isinstance(each, OptionGroup)), OTHERS)


def has_flag(field: FieldInfo) -> bool:
    """Return whether the command line has a flag for an option: not for mappings and rare ones."""
    return not (NO_FLAG in field.metadata or is_collection_of(field.annotation, dict))


def flag_of(name: str) -> str:
    """Return the flag of an option; `try_` is ``--try``, as Python keeps that word for itself."""
    return f"--{name.rstrip('_').replace('_', '-')}"


def is_collection_of(annotation: Any, kind: type) -> bool:
    """Return whether the type of an option is ``kind`` (tuple or dict), or a union with it."""
    return kind in {get_origin(annotation), *map(get_origin, get_args(annotation))}


# --- places and texts -----------------------------------------------------------------------------


def check_url(url: str) -> str:
    """Return a path or URL unchanged after checking that there is a file system for it."""
    import fsspec  # noqa: PLC0415 - as long as half of a command's help, which opens nothing

    try:
        fsspec.url_to_fs(url)
    except ImportError as error:
        raise ValueError(f"{url}: {describe_missing_library(url) or error}") from None
    except ValueError as error:
        raise ValueError(f"{url}: {error}") from None
    return url


def _check_named_url(source: str) -> str:
    check_url(split_name(source)[1])
    return source


def read_text(place: str) -> str:
    """Read the text of a file or URL."""
    import fsspec  # noqa: PLC0415 - see check_url

    try:
        with fsspec.open(check_url(place), "r", encoding="utf-8-sig") as file:
            return str(file.read())
    except UnicodeDecodeError:
        raise ValueError(f"{place}: is not UTF-8 text") from None
    except OSError as error:
        is_gone = isinstance(error, FileNotFoundError)
        why = "no such file" if is_gone else error.strerror or error
        raise ValueError(f"{place}: cannot be read ({why})") from None


def read_text_or_literal(place: str) -> str:
    """Return the text of a file or URL, or the argument itself if it names neither."""
    import fsspec  # noqa: PLC0415 - see check_url

    is_file = _A_FILE.fullmatch(place) or fsspec.filesystem("file").exists(place)
    return read_text(place) if place and is_file and "\n" not in place else place


def _read_words(place: str) -> str:
    """Return a text like `read_text_or_literal`, but refuse one word, which must be a file name."""
    text = read_text_or_literal(place).strip()
    if not text:
        raise ValueError(f"{place[:80]!r} is empty")
    if "\0" in text:
        raise ValueError(f"{place[:80]!r} holds a NUL character, so it is not a text")
    if text.isascii() and len(text.split()) == 1:
        raise ValueError(f"{text[:80]!r} is neither a file nor a text of several words")
    if len(text) > _LONGEST_TEXT:
        raise ValueError(
            f"has {len(text):,} characters, more than the {_LONGEST_TEXT:,} allowed in a prompt"
        )
    return text


class _TextReader(AfterValidator):
    """Reads the file that an option names, if the option is from a user and not of a record."""


def _reader(read: Callable[[str], str]) -> _TextReader:
    def text(value: str, info: ValidationInfo) -> str:
        return read(value) if info.context == FROM_USER else value

    return _TextReader(text)


def may_name_file(field: FieldInfo) -> bool:
    """Return whether an option is a text that a user may give as the name of a file."""
    nested = (getattr(kind, "__metadata__", ()) for kind in get_args(field.annotation))
    every = (*field.metadata, *(each for metadata in nested for each in metadata))
    return any(isinstance(each, _TextReader) for each in every)


Place = Annotated[str, Field(min_length=1), AfterValidator(check_url)]
"""A path or a URL of a kind that can be opened."""
NamedPlace = Annotated[str, Field(min_length=1), AfterValidator(_check_named_url)]
"""A place, perhaps as ``NAME=place``."""
FileText = Annotated[str, _reader(read_text_or_literal)]
"""A text, or the file or URL that holds it."""
TextOrFile = Annotated[str, _reader(_read_words)]
"""A text of several words for judges or people, or the file or URL that holds it."""


# --- the models -----------------------------------------------------------------------------------


class StrictModel(BaseModel):
    """Frozen options with finite 64-bit numbers, which refuse unknown names."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    @field_validator("*", mode="before")
    @classmethod
    def _no_switch_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        wanted = cls.model_fields[info.field_name or ""].annotation
        kinds = {wanted, *get_args(wanted)}
        if isinstance(value, bool) and {int, float} & kinds and bool not in kinds:
            raise ValueError(f"{str(value).lower()} is not a number")
        return value

    @field_validator("*")
    @classmethod
    def _fits_64_bits(cls, value: Any) -> Any:
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise ValueError("does not fit in 64 bits")
        return value


class CommandOptions(StrictModel):
    """The options of a command."""

    usage: ClassVar[str] = ""
    """the command with its required options, in one line"""
    positional: ClassVar[tuple[str, ...]] = ()
    """options without a flag, in the order of the command line"""
    exclusive: ClassVar[tuple[tuple[str, str], ...]] = ()
    """pairs of options of which one may be given"""
    needs: ClassVar[Mapping[str, str]] = {}
    """by option, another one without which it means nothing, and perhaps why"""

    _typed: tuple[str, ...] = PrivateAttr(())

    @property
    def typed(self) -> tuple[str, ...]:
        """Return the words of the command line, or none."""
        return self._typed

    def with_typed(self, words: Sequence[str]) -> Self:
        """Return the same options, with the words of the command line that they are from."""
        copy = self.model_copy()
        copy._typed = tuple(words)
        return copy

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        for one, other in self.exclusive:
            if self._is_given(one) and self._is_given(other):
                raise ValueError(f"use either {one} or {other}, not both")
        for name, other in self.needs.items():
            if self._is_given(name) and not self._is_given(other.partition(",")[0]):
                raise ValueError(f"{name}: needs {other}")
        return self

    def _is_given(self, name: str) -> bool:
        default = type(self).model_fields[name].get_default(call_default_factory=True)
        return bool(getattr(self, name) != default)

    @field_validator("*", mode="before")
    @classmethod
    def _one_is_a_list(cls, value: Any, info: ValidationInfo) -> Any:
        is_list = is_collection_of(cls.model_fields[info.field_name or ""].annotation, tuple)
        return (value,) if is_list and isinstance(value, str) else value


class ReadingOptions(CommandOptions):
    """The options of a command that reads tables."""

    columns: tuple[str, ...] = option(
        (),
        FILES,
        "names of columns as ROLE=NAME, such as doc_id=sku; roles: query_id, query, doc_id, "
        "content, grade, score, judge, a, b, winner ...",
    )

    @field_validator("columns", mode="before")
    @classmethod
    def _by_role(cls, columns: Any) -> Any:
        if isinstance(columns, Mapping):
            return tuple(f"{role}={name}" for role, name in columns.items())
        return columns


_Rate = Annotated[float | None, Field(gt=0)]
_Dollars = Annotated[float, Field(ge=0)]


class Limit(StrictModel):
    """Limits on the calls to one judge, over the whole cluster; rates are per minute."""

    concurrency: Annotated[int | None, Field(ge=1)] = None
    rpm: _Rate = None
    tpm: _Rate = None
    itpm: _Rate = None
    otpm: _Rate = None
    enqueued_tokens: Annotated[int | None, Field(gt=0)] = None
    """tokens of all batches at once"""

    @property
    def rates(self) -> dict[str, float]:
        """Return the given limits per minute."""
        rates = {name: getattr(self, name) for name in ("rpm", "tpm", "itpm", "otpm")}
        return {name: rate for name, rate in rates.items() if rate}


class Price(StrictModel):
    """Prices of a model, in US dollars per million tokens, or per thousand searches."""

    input: _Dollars = 0.0
    output: _Dollars = 0.0  # with hidden thinking
    cached: Annotated[float | None, Field(ge=0)] = None  # input read from a cache; as input if None
    cache_write: Annotated[float | None, Field(ge=0)] = None
    """as input if None, or 1.25 times as much at Anthropic"""
    batch: _Dollars = 0.5  # a factor for what comes in a batch
    search: _Dollars = 0.0  # of a reranker, for 1,000 search units

    @model_validator(mode="after")
    def _says_what_it_costs(self) -> Self:
        missing = {"input", "output"} - self.model_fields_set
        if missing and "search" not in self.model_fields_set:
            raise ValueError(f"{min(missing)}: is missing (or search, for a reranker)")
        return self


# Options that several commands have.
Seed = Annotated[int, option(..., RUNNING, "determines every random choice")]
People = Annotated[
    str | None, option(..., FILES, "only raters whose name matches, such as expert*", min_length=1)
]
Tables = Annotated[Place | None, option(..., FILES, "directory or URL for the tables")]
Runs = Annotated[
    tuple[NamedPlace, ...],
    option(..., FILES, "rankings: TREC runs, runs.parquet of a bake-off ...; NAME=FILE names one"),
]
Track = Annotated[
    tuple[str, ...],
    option(..., RUNNING, "log the run to trackers: mlflow, wandb (docs/troubleshooting.md)"),
]
Judges = Annotated[
    tuple[str, ...],
    option(
        ...,
        JUDGING,
        "such as openai:gpt-6-luna, offline or my_module:PROVIDER:model; without it, the default "
        "model of each provider whose key is set",
    ),
]
JudgeOptions = Annotated[
    dict[str, dict[str, Any]],
    option(..., JUDGING, "by judge: what changes answers (temperature, max_output_tokens ...)"),
]
Prices = Annotated[
    dict[str, Price],
    option(
        ...,
        MONEY,
        "by judge or reranker: {input: X, output: X, cached: X, cache_write: X} in dollars per "
        "million tokens, {search: X} per thousand searches, and {batch: X}, a factor",
    ),
]
KeyVariables = Annotated[
    dict[str, str], option(..., RUNNING, "by judge or reranker: the variable that holds its key")
]


class AskingOptions(ReadingOptions):
    """Options of every command that asks models and writes to a directory."""

    out: Place = option(..., FILES, "directory or URL for the results and the ledger")
    ledger: Place | None = option(None, FILES, "ledger to use and extend, if not that of --out")
    corpus: Place | None = option(None, FILES, "documents of runs: JSONL, a table, a BEIR folder")
    queries: Place | None = option(None, FILES, "queries of runs: the same")
    document_limit: int | None = option(None, FILES, "take the first N documents of a query", ge=2)
    show_metadata: tuple[str, ...] = option((), JUDGING, "metadata fields that models see")
    show_query: tuple[str, ...] = option((), JUDGING, "fields of a query's line that models see")
    instructions: TextOrFile | None = option(
        None, JUDGING, "what counts as relevant: a file, URL or text (where there is a prompt)"
    )
    seed: Seed = 0
    attempts: int = option(6, RUNNING, "calls for a request before it has failed", flag=False, ge=1)
    reasks: int = option(1, RUNNING, "further calls after an unreadable answer", flag=False, ge=0)
    retry_failures: bool = option(False, RUNNING, "ask again where earlier runs got no judgment")
    max_usd: float | None = option(None, MONEY, "dollars that all runs on --out may cost", gt=0)
    timeout: float = option(120.0, RUNNING, "seconds that one call may take", flag=False, gt=0)
    patience: float = option(
        43200.0,
        RUNNING,
        "seconds without an answer, or with nothing but 429s, that disable a judge",
        flag=False,
        gt=0,
    )
    keep_asking: bool = option(False, RUNNING, "go on if 20 requests gave no judgment", flag=False)
    executor: Literal["auto", "local", "ray"] = option(
        "auto", RUNNING, "auto: Ray for a cluster, GPUs, several actors or large jobs"
    )
    actors: int = option(1, RUNNING, "actors per provider or reranker", ge=1)
    track: Track = ()
    verbose: bool = option(False, RUNNING, "show Ray's own log as well", flag=False)
    limits: dict[str, Limit] = option(
        {},
        MONEY,
        "by judge or reranker: {concurrency: N} in flight, {rpm: N, tpm: N, itpm: N, otpm: N} a "
        "minute, {enqueued_tokens: N} in batches",
    )
    prices: Prices = Field(default_factory=dict)
    api_key_env: KeyVariables = Field(default_factory=dict)

    @property
    def ledger_dir(self) -> str:
        """Return the directory or URL of the ledger, which also has the records of batches."""
        return self.ledger or self.out


class JudgingOptions(AskingOptions):
    """Options of every command that judges pools, with any protocol."""

    positional: ClassVar[tuple[str, ...]] = ("inputs",)

    inputs: tuple[str, ...] = option(
        ..., FILES, "files, folders, globs or URLs of pools, tables, runs ...", min_length=1
    )
    replace: bool = option(
        False,
        FILES,
        "replace results of another protocol, panel or option, or of more queries",
    )
    document_tokens: int = option(2000, JUDGING, "tokens of a document that a model sees", ge=16)
    passages: int | None = option(
        None, JUDGING, "tokens of each passage shown of a longer document", flag=False, ge=32
    )
    judges: Judges = ()
    judge_options: JudgeOptions = Field(default_factory=dict)
    blocks: Literal["query", "session"] = option(
        "query", JUDGING, "session: judge whole conversations, all pools of one session_id"
    )
    min_coverage: float = option(
        0.5, JUDGING, "share of requests that must give a judgment", flag=False, ge=0, le=1
    )
    mode: Literal["online", "batch"] = option(
        "online", RUNNING, "batch: through the batch API of each provider that has one"
    )
    batch_poll: float = option(
        60.0, RUNNING, "longest time between two checks of a batch, in seconds", flag=False, gt=0
    )
    dry_run: bool = option(False, MONEY, "estimate requests, tokens, dollars and hours, then stop")
    allow_missing_judges: bool = option(False, RUNNING, "go on without a judge that is disabled")

    @model_validator(mode="after")
    def _passages_fit(self) -> Self:
        if self.passages and 2 * self.passages > self.document_tokens:
            raise ValueError(
                f"passages of {self.passages} tokens are more than half of document_tokens "
                f"({self.document_tokens}); give at most {self.document_tokens // 2}"
            )
        return self


class AnnotateOptions(JudgingOptions):
    """Options of `annotate`: judge pools by one protocol.

    A protocol's own options are a subclass of it.
    """

    usage: ClassVar[str] = "annotate INPUT... --out DIR [--judges J...]"

    protocol: str = option("zelo", JUDGING, "way of judging")
    pilot: int | None = option(None, MONEY, "judge N queries only, and estimate the rest", ge=1)
    collect: bool = option(False, RUNNING, "ask nothing: build results from the answers so far")


# --- loading --------------------------------------------------------------------------------------

Kind = TypeVar("Kind", bound=CommandOptions)


def load_options(kind: type[Kind], values: Mapping[str, Any]) -> Kind:
    """Make a command's options of given values."""
    try:
        return kind.model_validate(values, context=FROM_USER)
    except ValidationError as error:
        message = _describe_error(kind, error)
        usage = f"; zelo-ray {kind.usage}, or --help" if kind.usage else ""
        raise OptionError(message + usage) from None


def _describe_error(kind: type[CommandOptions], error: ValidationError) -> str:
    """Say what is wrong first, with the nearest name for one that is unknown."""
    first = error.errors(include_url=False)[0]
    *path, name = map(str, first["loc"] or ("",))
    if first["type"] == "literal_error" and not path and name in kind.model_fields:
        choices = [each for each in get_args(kind.model_fields[name].annotation) if each]
        return first_error(error) + did_you_mean(str(first["input"]), map(str, choices))
    if first["type"] != "extra_forbidden":
        return first_error(error)
    model: Any = kind
    if path:  # such as limits.JUDGE.rmp, where limits is a mapping to models
        _, model = get_args(kind.model_fields[path[0]].annotation)
    return f"{'.'.join([*path, name])}: no such option{did_you_mean(name, model.model_fields)}"


def read_config(place: str) -> dict[str, Any]:
    """Read the options of a YAML file; none if no file is named."""
    try:
        documents = read_yaml(read_text(place), f"{place} is") if place else []
    except ValueError as error:
        raise OptionError(str(error)) from None
    options = documents[0] if documents else {}
    if len(documents) > 1 or not isinstance(options, dict):
        raise OptionError(f"{place}: must hold lines of option: value")
    return options


def read_yaml(text: str, what: str) -> list[Any]:
    """Parse the documents of a YAML text, without empty ones; ``what`` begins a message."""
    import yaml  # noqa: PLC0415 - most commands read none

    class Loader(yaml.SafeLoader):
        """Refuses a key that stands twice, of which PyYAML takes the last."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            keys = list[Any]()  # they need not be hashable yet
            for key_node, _ in node.value:
                if key_node.tag == "tag:yaml.org,2002:merge":
                    continue  # keys that come from ``<<`` may be overridden
                if (key := self.construct_object(key_node, deep=True)) in keys:
                    line = key_node.start_mark.line + 1
                    raise ValueError(f"line {line}: {key!r:.60} is given twice")
                keys.append(key)
            return super().construct_mapping(node, deep)

    try:
        documents = [*yaml.load_all(text, Loader)]
    except (yaml.YAMLError, ValueError) as error:  # ValueError for invalid dates, too
        raise ValueError(f"{what} not valid YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise ValueError(f"{what} not valid YAML: it is nested too deeply") from None
    return [document for document in documents if document is not None]
