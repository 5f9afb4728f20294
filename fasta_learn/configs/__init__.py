"""Configs: as dicts and keys, pruned, as a matrix, and recorded in pools."""

from fasta_learn.configs._keys import config_key, config_to_dict
from fasta_learn.configs._pool import Pool, read_pool, write_pool
from fasta_learn.configs._pruner import ConfigPruner
from fasta_learn.configs._tile_space import TileSpace
from fasta_learn.configs._tiles import expand_multibuffer
from fasta_learn.configs._vectorizer import ConfigVectorizer

__all__ = [
    "ConfigPruner",
    "ConfigVectorizer",
    "Pool",
    "TileSpace",
    "config_key",
    "config_to_dict",
    "expand_multibuffer",
    "read_pool",
    "write_pool",
]
