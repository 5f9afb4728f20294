"""Tests of what is told about searches among Inductor's choices."""

import pytest

from fasta_learn.inductor import _guard
from fasta_learn.inductor._gemm_report import describe_inputs, give_up


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (
            "[('cuda', 'torch.float16', 1000, 3000, 3000, 1, 0), "
            "('cuda', 'torch.float16', 3000, 777, 777, 1, 0)]",
            ("1000x3000, 3000x777", "float16", "cuda"),
        ),
        (
            "[('cuda', 'torch.bfloat16', 8, 64, 32, 2048, 32, 1, 5), "
            "('cuda', 'torch.int8', 7, 1, 0)]",
            ("8x64x32, 7", "bfloat16, int8", "cuda"),
        ),
        ("[('cpu', 'torch.float32', 0)]", ("scalar", "float32", "cpu")),
        ("[]", ("", "", "")),
    ],
)
def test_inputs_are_described_in_short(key, expected):
    assert describe_inputs(key) == expected


def test_a_fault_is_raised_where_faults_are_looked_for(monkeypatch):
    monkeypatch.setenv("FASTA_LEARN_RAISE", "1")
    with pytest.raises(KeyError):
        give_up(KeyError("a fault"))


def test_a_fault_is_told_once(monkeypatch, caplog):
    monkeypatch.delenv("FASTA_LEARN_RAISE", raising=False)
    monkeypatch.setattr(_guard, "_warned", set())
    give_up(KeyError("a fault"))
    give_up(KeyError("a fault"))

    warnings = [r for r in caplog.records if r.levelname == "WARNING"]
    assert len(warnings) == 1
    assert "a fault" in warnings[0].getMessage()
