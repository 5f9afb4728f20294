import pytest
import torch

from fasta_learn.exceptions import WrongResultError
from fasta_learn.oracles._triton_result import ArgumentMemory, ResultCheck, compare

FLOATS = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
]
INTEGERS = [torch.int8, torch.int32, torch.int64, torch.uint8, torch.uint16]


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()


@pytest.mark.parametrize("dtype", FLOATS)
def test_rounding_to_the_type_is_no_error(dtype):
    exact = normal(64, 64)
    compare("y", exact.to(dtype), exact)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_order_of_summation_is_no_error(dtype):
    a, b = normal(64, 4096).to(dtype), normal(4096, 64, seed=1).to(dtype)
    halves = (
        a[:, :2048].float() @ b[:2048].float() + a[:, 2048:].float() @ b[2048:].float()
    )
    compare("c", halves.to(dtype), a.double() @ b.double())


def test_precision_of_tf32_is_no_error():
    a, b = normal(64, 4096), normal(4096, 64, seed=1)

    def to_tf32(values):  # 10 bits of the fraction are left
        bits = values.float().view(torch.int32)
        return ((bits + (1 << 12)) & ~((1 << 13) - 1)).view(torch.float32).double()

    compare("c", (to_tf32(a) @ to_tf32(b)).float(), a @ b)


@pytest.mark.parametrize("dtype", FLOATS)
def test_missing_block_is_an_error(dtype):
    exact = normal(64, 64)
    found = exact.clone()
    found[32:40, 32:40] = 0
    with pytest.raises(WrongResultError, match=r"y is wrong at \d+ of 4096 places"):
        compare("y", found.to(dtype), exact)


def test_message_tells_the_first_wrong_place():
    expected = torch.ones(4, 5)
    found = expected.clone()
    found[2, 3] = 1.5
    with pytest.raises(WrongResultError, match=r"1 of 20.*\[2, 3\]: 1.5 instead of 1$"):
        compare("y", found, expected)


@pytest.mark.parametrize("dtype", [*INTEGERS, torch.bool])
def test_integers_must_be_equal(dtype):
    expected = torch.ones(8, dtype=dtype)
    compare("y", expected.clone(), expected)
    found = expected.clone()
    found[3] = 0
    with pytest.raises(WrongResultError, match=r"1 of 8 places, first at \[3\]"):
        compare("y", found, expected)


def test_nan_and_infinity_equal_themselves_only():
    special = torch.tensor([float("nan"), float("inf"), -float("inf"), 1.0])
    compare("y", special.clone(), special)
    for place, value in [(0, 1.0), (1, 1e30), (2, float("inf")), (3, float("nan"))]:
        found = special.clone()
        found[place] = value
        with pytest.raises(WrongResultError, match=rf"1 of 4.*\[{place}\]"):
            compare("y", found, special)


def test_complex_values_are_compared():
    expected = torch.complex(normal(50), normal(50, seed=1)).to(torch.complex64)
    compare("y", expected * (1 + 1e-5), expected)
    with pytest.raises(WrongResultError):
        compare("y", expected.conj().resolve_conj(), expected)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, torch.bool, torch.complex64])
def test_poisoned_result_is_wrong_everywhere(dtype):
    expected = (normal(100) * 20).abs().to(dtype)
    found = expected.clone()
    check = ResultCheck({"y": found}, {"y": expected}, ())
    check.verify()
    check.poison()
    with pytest.raises(WrongResultError, match="100 of 100"):
        check.verify()


def test_kept_tensor_is_not_poisoned():
    found = torch.ones(3)
    check = ResultCheck({"y": found}, {"y": torch.ones(3)}, ["y"])
    check.poison()
    check.verify()


def test_no_check_is_false_and_content():
    check = ResultCheck({}, None, ())
    assert not check
    check.poison()
    check.verify()


def test_memory_puts_back_what_was_there_at_first():
    y, z = torch.arange(4.0), torch.ones(4)
    memory = ArgumentMemory({"y": y, "z": z, "none": None}, ["z", "none"], ["y"])
    memory.snapshot()
    for _ in range(2):
        y += 1
        z += 1
        memory.put_back()
        assert y.tolist() == [0, 1, 2, 3]
        assert z.tolist() == [0, 0, 0, 0]


def test_memory_takes_one_copy_only(monkeypatch):
    clones = []
    clone = torch.Tensor.clone

    def count(tensor, **options):
        clones.append(tensor)
        return clone(tensor, **options)

    monkeypatch.setattr(torch.Tensor, "clone", count)
    memory = ArgumentMemory({"y": torch.zeros(3)}, [], ["y"])
    for _ in range(3):
        memory.put_back()
    assert len(clones) == 1


@pytest.mark.parametrize(
    "view",
    [
        lambda base: base.t(),
        lambda base: base[:, ::2],
        lambda base: base[0].expand(3, 6),
        lambda base: base.requires_grad_(),
    ],
    ids=["transposed", "strided", "expanded", "requires_grad"],
)
def test_views_are_put_back(view):
    base = torch.arange(24.0).reshape(4, 6)
    before = base.clone()
    memory = ArgumentMemory({"y": view(base)}, [], ["y"])
    memory.snapshot()
    with torch.no_grad():
        (base[0] if view(base).shape == (3, 6) else view(base)).add_(5)
        assert not torch.equal(base, before)
        memory.put_back()
    assert torch.equal(base, before)


def test_forgotten_memory_starts_anew():
    y = torch.zeros(2)
    memory = ArgumentMemory({"y": y}, [], ["y"])
    memory.snapshot()
    memory.forget()
    y += 1
    memory.put_back()
    assert y.tolist() == [1, 1]
