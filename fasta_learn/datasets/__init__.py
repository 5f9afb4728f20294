"""Recorded pools that ship with the package."""

from fasta_learn.datasets._pools import list_pools, load_pool

__all__ = ["list_pools", "load_pool"]
