"""Model selection: bases compete by leave-one-out predictions."""

from fasta_learn.model_selection._leave_one_out import loo_predictions
from fasta_learn.model_selection._selector import ModelSelector

__all__ = ["ModelSelector", "loo_predictions"]
