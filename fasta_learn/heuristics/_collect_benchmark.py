"""What measures inputs, and on what."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from fasta_learn.heuristics._collect_shapes import GemmInput

CHOICES = ("orig", "pad")


@dataclass(frozen=True)
class DeviceDescription:
    """What a log was measured on.

    Attributes
    ----------
    name : str
        Name of the device, such as "NVIDIA H200".
    memory : int
        Its memory, in bytes.
    shared_memory : int
        The most shared memory of a block, in bytes: by this and by the capability
        torch tells devices apart.
    device_capa : (int, int)
        The compute capability.
    versions : dict of str to str
        Of what the durations depend on.
    """

    name: str
    memory: int
    shared_memory: int
    device_capa: tuple[int, int]
    versions: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON.

        Returns
        -------
        dict of str to object
            The attributes.
        """
        return {**asdict(self), "device_capa": list(self.device_capa)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "DeviceDescription":
        """Make a description of what `to_dict` gave.

        Parameters
        ----------
        values : dict of str to object
            The attributes.

        Returns
        -------
        DeviceDescription
            The description.
        """
        return cls(**{**values, "device_capa": tuple(values["device_capa"])})


class PadBenchmark(ABC):
    """Measures inputs on one device; what `collect` needs of it.

    A benchmark is pickled into a child process for each device, so that it must not
    hold a device before it is used.

    See Also
    --------
    CudaPadBenchmark : On an NVIDIA GPU.
    SimulatedGPU : On a model of a GPU.
    """

    def select_device(self, device: int) -> None:  # noqa: B027
        """Be told the index of the device, once, before all else.

        Parameters
        ----------
        device : int
            The index.
        """

    @abstractmethod
    def describe(self) -> DeviceDescription:
        """Return what is measured on.

        Returns
        -------
        DeviceDescription
            The device.
        """

    def is_decided(self, items: Sequence[GemmInput]) -> list[bool]:
        """Return for which inputs torch would ask a heuristic.

        Parameters
        ----------
        items : sequence of GemmInput
            The inputs.

        Returns
        -------
        list of bool
            By default all of them.
        """
        return [True] * len(items)

    @abstractmethod
    def measure(self, item: GemmInput, n_repetitions: int) -> list[tuple[str, float]]:
        """Measure an input.

        Parameters
        ----------
        item : GemmInput
            The input.
        n_repetitions : int
            How often each choice is measured.

        Returns
        -------
        list of (str, float)
            Choice ("orig" or "pad") and duration in ms, in the order measured; inf
            where the memory does not suffice.
        """
