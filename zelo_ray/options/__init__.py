"""Define the options of every command, once for flags, YAML and keywords."""

from zelo_ray.options.base import CommandOptions, OptionGroup, load_options
from zelo_ray.options.judging import AnnotateOptions, AskingOptions, JudgingOptions, Limit, Price
from zelo_ray.options.places import FileText, Place

__all__ = [
    "AnnotateOptions",
    "AskingOptions",
    "CommandOptions",
    "FileText",
    "JudgingOptions",
    "Limit",
    "OptionGroup",
    "Place",
    "Price",
    "load_options",
]
