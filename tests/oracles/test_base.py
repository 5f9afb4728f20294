import pytest

from fasta_learn.oracles import BaseOracle, Measurement


class SumOracle(BaseOracle):
    def measure(self, configs):
        assert isinstance(configs, list)
        return [Measurement(config["a"]) for config in configs]


def test_measure_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        BaseOracle()


def test_measure_each_falls_back_on_measure():
    answers = SumOracle().measure_each({"a": value} for value in (3.0, 1.0))
    assert [answer.duration for answer in answers] == [3.0, 1.0]


def test_fingerprint_is_the_name_of_the_class():
    assert SumOracle().fingerprint() == {"oracle": "SumOracle"}


def test_open_pool_does_nothing():
    assert SumOracle().open_pool([{"a": 1}]) is None
