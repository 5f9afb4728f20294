"""Errors and warnings of fasta_learn; each also is one of the standard ones."""

__all__ = [
    "AllConfigsFailedError",
    "JournalMismatchError",
    "MissingExtraError",
    "PoolFormatError",
    "PruningWarning",
    "WrongResultError",
]


class AllConfigsFailedError(ValueError):
    """Every config that the budget allowed failed to compile or run."""


class JournalMismatchError(ValueError):
    """A journal was recorded for another pool, kernel, device or version."""


class MissingExtraError(ImportError):
    """A package of one of the optional extras is needed and not installed."""


class PoolFormatError(ValueError):
    """A pool file can't be read; the message names file, line and column."""


class PruningWarning(UserWarning):
    """A pruner would have removed every config and left the input whole."""


class WrongResultError(AssertionError):
    """A kernel ran, and its result differs from the expected one."""
