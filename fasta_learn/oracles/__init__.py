"""What measures configs: by a function, from a recording, through a journal."""

from fasta_learn.oracles._base import BaseOracle
from fasta_learn.oracles._callable import CallableOracle
from fasta_learn.oracles._conformance import check_oracle
from fasta_learn.oracles._journal import JournaledOracle
from fasta_learn.oracles._measurement import Measurement, bound_reason
from fasta_learn.oracles._recorded import RecordedOracle

__all__ = [
    "BaseOracle",
    "CallableOracle",
    "JournaledOracle",
    "Measurement",
    "RecordedOracle",
    "bound_reason",
    "check_oracle",
]
