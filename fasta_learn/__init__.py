"""Find a fast launch config of a GPU or NPU kernel after measuring few of them."""

from fasta_learn.autotuner import autotune
from fasta_learn.configs import (
    ConfigPruner,
    ConfigVectorizer,
    TileSpace,
    read_pool,
    write_pool,
)
from fasta_learn.model_selection import ModelSelector
from fasta_learn.search import ActiveConfigSearch, dynamic_filter_search

__version__ = "0.1.0.dev0"

__all__ = [
    "ActiveConfigSearch",
    "ConfigPruner",
    "ConfigVectorizer",
    "ModelSelector",
    "TileSpace",
    "autotune",
    "dynamic_filter_search",
    "read_pool",
    "write_pool",
]
