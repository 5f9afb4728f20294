"""Gaussian processes for pools of launch configs."""

from fasta_learn.gaussian_process._regressor import AnovaGaussianProcess

__all__ = ["AnovaGaussianProcess"]
