"""A drop-in for ``triton.autotune`` that measures few configs of large pools."""

from fasta_learn.autotuner._autotune import autotune

__all__ = ["autotune"]
