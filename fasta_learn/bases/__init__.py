"""Bases: fixed expansions of the features that ridge models are fitted on."""

from fasta_learn.bases._base import BaseBasis
from fasta_learn.bases._fourier import FourierBasis
from fasta_learn.bases._polynomial import (
    CubicBasis,
    LinearBasis,
    PolynomialBasis,
    QuadraticBasis,
)

__all__ = [
    "BaseBasis",
    "CubicBasis",
    "FourierBasis",
    "LinearBasis",
    "PolynomialBasis",
    "QuadraticBasis",
]
