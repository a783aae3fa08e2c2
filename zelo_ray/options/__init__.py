"""Define the options of every command, once for flags, YAML and keywords.

A field is the flag ``--field-name``, the YAML key ``field_name`` and the keyword ``field_name``.
Flags and keywords override the file.
"""

from zelo_ray.options.agree import AgreeOptions
from zelo_ray.options.annotate import AnnotateOptions
from zelo_ray.options.asking import AskingOptions, Limit, Price
from zelo_ray.options.bakeoff import BakeoffOptions
from zelo_ray.options.command import CommandOptions, OptionGroup, did_you_mean
from zelo_ray.options.compare_labels import CompareLabelsOptions
from zelo_ray.options.compare_protocols import CompareProtocolsOptions
from zelo_ray.options.convert import ConvertOptions
from zelo_ray.options.doctor import DoctorOptions
from zelo_ray.options.drift import DriftOptions
from zelo_ray.options.fit import FitOptions
from zelo_ray.options.judging import JudgingOptions
from zelo_ray.options.label import LabelOptions
from zelo_ray.options.loading import COMMANDS, Kind, load_options
from zelo_ray.options.places import FileText, Place
from zelo_ray.options.probe import ProbeOptions
from zelo_ray.options.prompt import PromptOptions
from zelo_ray.options.results import (
    BatchesOptions,
    ExplainOptions,
    ReportOptions,
    WatchOptions,
)
from zelo_ray.options.sample import SampleOptions
from zelo_ray.options.tune import TuneOptions

__all__ = [
    "COMMANDS",
    "AgreeOptions",
    "AnnotateOptions",
    "AskingOptions",
    "BakeoffOptions",
    "BatchesOptions",
    "CommandOptions",
    "CompareLabelsOptions",
    "CompareProtocolsOptions",
    "ConvertOptions",
    "DoctorOptions",
    "DriftOptions",
    "ExplainOptions",
    "FileText",
    "FitOptions",
    "JudgingOptions",
    "Kind",
    "LabelOptions",
    "Limit",
    "OptionGroup",
    "Place",
    "Price",
    "ProbeOptions",
    "PromptOptions",
    "ReportOptions",
    "SampleOptions",
    "TuneOptions",
    "WatchOptions",
    "did_you_mean",
    "load_options",
]
