"""What measures configs: a function, a Triton kernel, a recording, a journal."""

from fasta_learn.oracles._base import BaseOracle
from fasta_learn.oracles._callable import CallableOracle
from fasta_learn.oracles._conformance import check_oracle
from fasta_learn.oracles._journal import JournaledOracle
from fasta_learn.oracles._kernel_spec import KernelSpec, load_kernel_spec
from fasta_learn.oracles._measurement import Measurement, bound_reason
from fasta_learn.oracles._npu import NPUKernelOracle
from fasta_learn.oracles._recorded import RecordedOracle
from fasta_learn.oracles._timing import TimingPlan
from fasta_learn.oracles._triton import TritonKernelOracle

__all__ = [
    "BaseOracle",
    "CallableOracle",
    "JournaledOracle",
    "KernelSpec",
    "Measurement",
    "NPUKernelOracle",
    "RecordedOracle",
    "TimingPlan",
    "TritonKernelOracle",
    "bound_reason",
    "check_oracle",
    "load_kernel_spec",
]
