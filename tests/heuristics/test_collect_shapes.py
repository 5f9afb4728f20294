import numpy as np
import pytest
from scipy.stats import binomtest

from fasta_learn.heuristics import GemmInput, InputSampler, known_inputs, read_shapes
from fasta_learn.heuristics._collect_shapes import ITEM_BYTES

N_DRAWN = 4000


@pytest.fixture(scope="module")
def drawn():
    sampler = InputSampler(141 * 10**9, random_state=0)
    return [sampler.draw() for _ in range(N_DRAWN)]


def is_plausible(count, total, probability):
    """Whether a count is what a probability leads to, but once in a million."""
    return binomtest(int(count), total, probability).pvalue > 1e-6


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_dtype_is_uniform(drawn, dtype):
    count = sum(item.dtype == dtype for item in drawn)
    assert is_plausible(count, N_DRAWN, 1 / 3)


@pytest.mark.parametrize(
    ("left", "right", "probability"),
    [
        (True, True, 0.05),
        (True, False, 0.95 / 3),
        (False, True, 0.95 / 3),
        (False, False, 0.95 / 3),
    ],
)
def test_transposes(drawn, left, right, probability):
    pairs = [(item.transpose_left, item.transpose_right) for item in drawn]
    assert is_plausible(pairs.count((left, right)), N_DRAWN, probability)


@pytest.mark.parametrize("side", ["prepadded_left", "prepadded_right"])
def test_prepadded(drawn, side):
    count = sum(getattr(item, side) for item in drawn)
    assert is_plausible(count, N_DRAWN, 0.2)


def test_tf32_of_a_fifth_of_float32(drawn):
    tf32 = [item.tf32 for item in drawn if item.dtype == "float32"]
    assert is_plausible(sum(tf32), len(tf32), 0.2)
    assert not any(item.tf32 for item in drawn if item.dtype != "float32")


def test_half_of_the_inputs_have_uniform_sizes(drawn):
    # Of uniform sizes, 15 of 16 exceed 4096 and few are powers of two; of the others,
    # at least one is a power of two in all but 1/64.
    def is_power(size):
        return size & (size - 1) == 0

    def has_power(item):
        return any(is_power(size) for size in (item.m, item.k, item.n))

    count = sum(not has_power(item) for item in drawn)
    assert 0.45 < count / N_DRAWN < 0.55


def test_uniform_sizes_reach_both_ends(drawn):
    sizes = np.array([item.m for item in drawn])
    assert sizes.min() < 10
    assert sizes.max() > 60000
    assert sizes.max() <= 65536


def test_something_is_to_be_padded(drawn):
    for item in drawn:
        assert any(
            size % (4 if item.dtype == "float32" else 8)
            for size in (item.m, item.k, item.n)
        )


def test_a_quarter_of_the_memory_is_enough():
    memory = 10**9
    sampler = InputSampler(memory, random_state=1)
    for item in (sampler.draw() for _ in range(300)):
        n_numbers = item.m * item.k + item.k * item.n + item.m * item.n
        assert ITEM_BYTES[item.dtype] * n_numbers < memory / 4


def test_operations_are_limited():
    sampler = InputSampler(10**12, random_state=1, max_operations=1e12)
    items = [sampler.draw() for _ in range(300)]
    assert max(2 * item.m * item.k * item.n for item in items) <= 1e12


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9])
@pytest.mark.parametrize("transpose", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("tf32", [False, True])
def test_features_are_those_of_torch(size, transpose, dtype, tf32):
    torch = pytest.importorskip("torch")
    pad_mm = pytest.importorskip("torch._inductor.fx_passes.pad_mm")
    left, right = transpose
    item = GemmInput(size, 12, 33, dtype, left, right, tf32=tf32, prepadded_right=True)
    kind = getattr(torch, dtype)
    a = (
        torch.ones(12, size, dtype=kind).t()
        if left
        else torch.ones(size, 12, dtype=kind)
    )
    b = torch.ones(33, 12, dtype=kind).t() if right else torch.ones(12, 33, dtype=kind)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    try:
        context = pad_mm.get_context(
            a,
            b,
            False,
            (b + 1).is_contiguous(),
            *(
                pad_mm.get_padded_length(n, pad_mm.get_alignment_size(a))
                for n in (size, 12, 33)
            ),
        )
    finally:
        torch.set_float32_matmul_precision(before)
    values = item.features()
    assert context.get_feature_names_csv() == ",".join(values)
    assert context.get_feature_values_csv() == ",".join(item.key())


@pytest.mark.parametrize(
    ("sizes", "dtype", "told"),
    [((0, 1, 1), "float16", "at least 1"), ((1, 1, 1), "int8", "dtype must be one")],
)
def test_impossible_inputs_are_refused(sizes, dtype, told):
    with pytest.raises(ValueError, match=told):
        GemmInput(*sizes, dtype)


def test_shapes_of_a_file(tmp_path):
    path = tmp_path / "shapes.csv"
    path.write_text("dtype, N,K,M,model\nfloat16,3,2,1,a\ntorch.float32,6,5,4,b\n")
    assert read_shapes(path) == [
        GemmInput(1, 2, 3, "float16"),
        GemmInput(4, 5, 6, "float32"),
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("M,K,dtype\n1,2,float16\n", "no column N"),
        ("", "no column M, K, N, dtype"),
        ("M,K,N,dtype\n1,2,3,float16\n1,x,3,float16\n", "line 3.*'x'"),
        ("M,K,N,dtype\n1,2,3,int8\n", "line 2: dtype must be one of"),
        ("M,K,N,dtype\n1,2\n", "line 2"),
    ],
)
def test_wrong_lines_of_a_file_are_told(tmp_path, text, told):
    path = tmp_path / "shapes.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=told):
        read_shapes(path)


def test_known_inputs_are_unaligned_and_different():
    items = list(known_inputs())
    assert len(set(items)) == len(items) > 100
    assert not any(item.is_aligned for item in items)
    assert GemmInput(1024, 768, 50257, "float16") in items
