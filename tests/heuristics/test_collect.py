import json
import os
import threading

import numpy as np
import pytest

from fasta_learn.heuristics import (
    GemmInput,
    InputSampler,
    SimulatedGPU,
    collect,
    group_inputs,
    read_device,
    read_log,
)
from fasta_learn.heuristics._collect_benchmark import DeviceDescription
from fasta_learn.heuristics._collect_queue import plan_inputs


class CountingGPU(SimulatedGPU):
    """Remembers what it measured; may fail."""

    def __init__(self, fails=lambda item: False, name="simulated", **parameters):
        super().__init__(**parameters)
        self.items = []
        self.fails = fails
        self.name = name

    def describe(self):
        values = super().describe().to_dict()
        return DeviceDescription.from_dict({**values, "name": self.name})

    def measure(self, item, n_repetitions):
        self.items.append(item)
        if self.fails(item):
            raise RuntimeError("an illegal memory access was encountered")
        return super().measure(item, n_repetitions)


@pytest.fixture
def gather(tmp_path):
    """Collect in this process, into the same log each time."""

    def call(n_samples=12, *, benchmark=None, name="log.txt", **options):
        benchmark = SimulatedGPU() if benchmark is None else benchmark
        return collect(
            tmp_path / name,
            n_samples=n_samples,
            benchmark=benchmark,
            **{"isolate": False, **options},
        )

    call.log = tmp_path / "log.txt"
    return call


def test_each_input_has_its_repetitions(gather):
    gather(12)
    inputs = group_inputs(read_log(gather.log))
    assert len(inputs) == 12
    assert (inputs[["n_orig", "n_pad"]] == 3).all(axis=None)


def test_durations_are_those_that_were_measured(gather):
    gpu = CountingGPU()
    gather(1, benchmark=gpu, n_repetitions=2)
    rows = read_log(gather.log).frame[["choice", "feedback"]]
    expected = SimulatedGPU().measure(gpu.items[0], 2)
    assert [tuple(row) for row in rows.itertuples(index=False)] == expected


def test_log_is_of_the_form_of_torch(gather):
    gather(1)
    head, names, *rows = gather.log.read_text().splitlines()
    assert head == json.dumps(
        {
            "shared_memory": 200000,
            "device_capa": (0, 0),
            "name": "pad_mm",
            "numerical_features": [
                *("m", "k", "n"),
                *("mat1_stride_0", "mat1_stride_1", "mat2_stride_0", "mat2_stride_1"),
                *("m_padded_length", "k_padded_length", "n_padded_length"),
                *("mat1_align_size", "mat2_align_size"),
            ],
            "categorical_features": [
                *("mat1_dtype", "mat2_dtype"),
                *("prepadded_mat1", "prepadded_mat2", "using_tf32"),
            ],
        }
    )
    assert names.split(",")[-3:] == ["using_tf32", "choice", "feedback"]
    assert [row.split(",")[-2] for row in rows] == ["orig", "pad"] * 3


def test_equal_seeds_give_equal_logs(gather, tmp_path):
    gather(12, random_state=3)
    gather(12, random_state=3, name="again.txt")
    gather(12, random_state=4, name="other.txt")
    text = gather.log.read_text()
    assert (tmp_path / "again.txt").read_text() == text
    assert (tmp_path / "other.txt").read_text() != text


def test_a_complete_log_is_not_measured_again(gather):
    gather(12)
    gpu = CountingGPU()
    report = gather(12, benchmark=gpu)
    assert gpu.items == []
    assert (report.n_before, report.n_measured, report.is_complete) == (12, 0, True)


def test_a_larger_collection_keeps_what_a_smaller_one_measured(gather):
    gather(12)
    report = gather(40)
    assert (report.n_before, report.n_measured) == (12, 28)
    assert len(group_inputs(read_log(gather.log))) == 40


@pytest.mark.parametrize("n_lines", [2, 3, 40])
def test_an_interrupted_collection_goes_on(gather, tmp_path, n_lines):
    gather(12, name="whole.txt")
    whole = (tmp_path / "whole.txt").read_text()
    lines = whole.splitlines(keepends=True)
    gather.log.write_text("".join(lines[:n_lines]) + lines[n_lines][:9])
    gather(12)
    log = read_log(gather.log)
    assert log.problems == []
    reference = group_inputs(read_log(tmp_path / "whole.txt"))
    assert group_inputs(log)[["m", "k", "n"]].equals(reference[["m", "k", "n"]])


def test_time_that_is_up_is_told_and_the_next_call_goes_on(gather):
    report = gather(12, seconds=1e-9)
    assert not report.is_complete
    assert gather(12).n_measured == 12 - report.n_measured


def test_all_devices_measure(gather):
    """Two wait for each other, which one alone would do in vain."""
    barrier = threading.Barrier(2, timeout=20)

    class Meeting(SimulatedGPU):
        def measure(self, item, n_repetitions):
            barrier.wait()
            return super().measure(item, n_repetitions)

    report = gather(6, benchmark=Meeting(), devices=(0, 1))
    assert report.n_measured == 6


def test_child_processes_measure_the_same(gather, tmp_path):
    gather(6)
    gather(6, isolate=True, name="children.txt")
    assert (tmp_path / "children.txt").read_text() == gather.log.read_text()


def test_a_crash_costs_one_input(gather):
    # Defined here, it is sent to the child by value: the child can't import tests.
    class Crashing(SimulatedGPU):
        def measure(self, item, n_repetitions):
            if item.dtype == "float32":
                os.abort()
            return super().measure(item, n_repetitions)

    shapes = [GemmInput(800, 801 + i, 900, "float16") for i in range(3)]
    shapes.insert(1, GemmInput(800, 801, 900, "float32"))
    report = gather(4, benchmark=Crashing(), isolate=True, shapes=shapes)
    assert (report.n_measured, report.n_failed) == (4, 1)
    (reason,) = report.reasons
    assert "SIGABRT" in reason
    inputs = group_inputs(read_log(gather.log))
    failed = inputs[inputs["mat1_dtype"] == "torch.float32"]
    assert np.isinf(failed[["median_orig", "median_pad"]]).all(axis=None)


def test_a_failed_input_is_not_tried_again(gather):
    shapes = [GemmInput(800, 801 + i, 900, "float16") for i in range(3)]
    gather(3, benchmark=CountingGPU(lambda item: item.k == 802), shapes=shapes)
    gpu = CountingGPU()
    assert gather(3, benchmark=gpu, shapes=shapes).n_measured == 0


def test_a_broken_device_leaves_no_failed_inputs(gather):
    with pytest.raises(RuntimeError, match=r"5 inputs in a row failed.*illegal"):
        gather(12, benchmark=CountingGPU(lambda item: True))
    assert not gather.log.exists()


def test_another_device_of_the_same_key_is_refused(gather):
    gather(3, benchmark=CountingGPU(name="NVIDIA H100"))
    with pytest.raises(ValueError, match="measured on NVIDIA H100"):
        gather(3, benchmark=CountingGPU(name="NVIDIA H200"))


def test_device_is_kept_beside_the_log(gather):
    gather(1)
    assert read_device(gather.log) == SimulatedGPU().describe()


def test_unequal_devices_are_refused(gather):
    class Mixed(SimulatedGPU):
        n_seen = 0

        def describe(self):
            type(self).n_seen += 1
            memory = 10**10 * type(self).n_seen
            values = super().describe().to_dict()
            return DeviceDescription.from_dict({**values, "memory": memory})

    with pytest.raises(ValueError, match=r"device 1 .* is not like device 0"):
        gather(3, benchmark=Mixed(), devices=(0, 1))


def test_a_log_of_another_device_is_refused(gather):
    gather.log.write_text(
        '{"shared_memory": 166912, "device_capa": [8, 0], "name": "pad_mm", '
        '"numerical_features": ["m"], "categorical_features": []}\n'
        "m,choice,feedback\n3,orig,1.0\n"
    )
    with pytest.raises(ValueError, match="shared_memory"):
        gather(3)


def test_progress_counts_up_to_the_whole(gather):
    gather(2)
    seen = []
    gather(5, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(3, 5), (4, 5), (5, 5)]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"n_samples": 0}, "n_samples must be at least 1"),
        ({"n_repetitions": 0}, "n_repetitions must be at least 1"),
        ({"devices": ()}, "devices must be different indices"),
        ({"devices": (1, 1)}, "devices must be different indices"),
        ({"devices": (-1,)}, "devices must be different indices"),
    ],
)
def test_misuse(gather, options, told):
    with pytest.raises(ValueError, match=told):
        gather(**{"n_samples": 3, **options})


def everything(items):
    return [True] * len(items)


def test_plan_begins_with_the_shapes_that_were_given():
    shapes = [GemmInput(1000, 777 + i, 3000, "bfloat16") for i in range(5)]
    plan = plan_inputs(10**11, 40, everything, shapes=shapes)
    assert [(item.m, item.k, item.n) for item in plan[:5]] == [
        (1000, 777 + i, 3000) for i in range(5)
    ]


@pytest.mark.parametrize("known", [True, False])
def test_so_many_of_the_plan_are_of_known_models(known):
    n_known = 20 if known else 0
    plan = plan_inputs(10**11, 80, everything, n_known=n_known)
    sizes = {50257, 30522, 28996, 119547, 50265, 250002, 128100, 58101, 51865}
    n_vocabulary = sum(bool(sizes & {item.m, item.k, item.n}) for item in plan)
    assert (n_vocabulary > 0) is known
    assert n_vocabulary <= 20


def test_plan_of_fewer_inputs_is_part_of_that_of_more():
    few = plan_inputs(10**11, 30, everything, n_known=7)
    assert set(few) <= set(plan_inputs(10**11, 90, everything, n_known=20))


def test_plan_holds_what_torch_asks_about_only():
    def is_decided(items):
        return [item.m >= 768 for item in items]

    plan = plan_inputs(10**11, 50, is_decided)
    assert len({item.key() for item in plan}) == 50
    assert min(item.m for item in plan) >= 768


def test_plan_gives_up_where_torch_asks_about_nothing():
    with pytest.raises(ValueError, match="about none that is new"):
        plan_inputs(10**11, 5, lambda items: [False] * len(items))


def test_nothing_fits_into_too_little_memory():
    with pytest.raises(ValueError, match=r"no unaligned .* input was found"):
        InputSampler(10).draw()
