import itertools

import pytest

from fasta_learn.oracles import (
    BaseOracle,
    CallableOracle,
    JournaledOracle,
    Measurement,
    RecordedOracle,
    check_oracle,
)

CONFIGS = [{"BLOCK": block} for block in (16, 32, 64)]


def make_recorded():
    return RecordedOracle(
        CONFIGS, [6.25, 3.125, float("inf")], status=["ok", "ok", "out_of_resources"]
    )


@pytest.fixture(params=["recorded", "callable", "threads", "child", "journaled"])
def oracle(request, tmp_path):
    if request.param == "recorded":
        yield make_recorded()
    elif request.param == "journaled":
        yield JournaledOracle(make_recorded(), tmp_path / "journal.jsonl")
    else:
        more = {"callable": {}, "threads": {"n_jobs": 2}, "child": {"timeout": 60}}
        # The child can't import the tests: a local function goes by value.
        with CallableOracle(
            lambda config: 100 / config["BLOCK"] if config["BLOCK"] < 64 else -1,
            **more[request.param],
        ) as made:
            yield made


def test_own_oracles_conform(oracle):
    check_oracle(oracle, CONFIGS, rtol=0)


def test_noise_is_allowed_by_default():
    noise = itertools.count(1)
    check_oracle(CallableOracle(lambda config: next(noise)), CONFIGS)


def test_one_config_is_too_few():
    with pytest.raises(ValueError, match="needs two configs or more, got 1"):
        check_oracle(make_recorded(), CONFIGS[:1])


class Good(BaseOracle):
    def measure(self, configs):
        return [Measurement(100 / config["BLOCK"]) for config in configs]


class Generator(Good):
    def measure(self, configs):
        return iter(super().measure(configs))


class TooShort(Good):
    def measure(self, configs):
        return super().measure(configs)[1:]


class Floats(Good):
    def measure(self, configs):
        return [answer.duration for answer in super().measure(configs)]


class Sorted(Good):
    def measure(self, configs):
        return sorted(super().measure(configs), key=lambda answer: answer.duration)


class NeedsLength(Good):
    def measure_each(self, configs):
        return iter(self.measure(configs[: len(configs)]))


class EachTooShort(Good):
    def measure_each(self, configs):
        yield from self.measure(list(configs)[1:])


class EachBackwards(Good):
    def measure_each(self, configs):
        yield from self.measure(list(configs)[::-1])


class NotEmpty(Good):
    def measure(self, configs):
        return super().measure(configs) or [Measurement(1.0)]


class EachNotEmpty(Good):
    def measure_each(self, configs):
        yield from self.measure(list(configs)) or [Measurement(1.0)]


class DependsOnTheBatch(Good):
    def measure(self, configs):
        return [Measurement(len(configs) / config["BLOCK"]) for config in configs]


class FailsTheSecondTime(Good):
    n_calls = 0

    def measure(self, configs):
        self.n_calls += bool(configs)
        if self.n_calls > 2:
            return [Measurement.failed("error") for _ in configs]
        return super().measure(configs)


class NoDictionary(Good):
    def fingerprint(self):
        return "H200"


class NoJson(Good):
    def fingerprint(self):
        return {"device": object()}


class ChangingFingerprint(Good):
    n_calls = 0

    def fingerprint(self):
        self.n_calls += 1
        return {"calls": self.n_calls}


@pytest.mark.parametrize(
    ("faulty", "message"),
    [
        (Generator, r"measure\(\[\]\) must give an empty list"),
        (TooShort, "measure gave 2 answers to 3 configs"),
        (Floats, r"must give Measurements, but \[0\] is 6.25"),
        (Sorted, r"measure of the reversed configs: config 0 took 6.25 ms"),
        (EachTooShort, "measure_each of a generator gave 2 answers to 3"),
        (EachBackwards, "measure_each and measure: config 0 took"),
        (NotEmpty, r"measure\(\[\]\) must give an empty list"),
        (EachNotEmpty, r"measure_each\(\[\]\) must give nothing"),
        (DependsOnTheBatch, "measure of each config alone: config 0 took"),
        (FailsTheSecondTime, "two calls of measure: config 0 is 'error' once"),
        (NoDictionary, "fingerprint must be a dict, got 'H200'"),
        (NoJson, "fingerprint can't be written as JSON"),
        (ChangingFingerprint, "fingerprint differs from call to call"),
    ],
)
def test_faults_are_found(faulty, message):
    with pytest.raises(AssertionError, match=message):
        check_oracle(faulty(), CONFIGS, rtol=0)


def test_oracle_that_can_not_take_a_generator_is_found():
    with pytest.raises(TypeError):
        check_oracle(NeedsLength(), CONFIGS)
