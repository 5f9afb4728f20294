import itertools

import numpy as np
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


def test_rows_of_a_matrix_may_be_configs():
    pool = np.array([[1.0, 2.0], [3.0, 4.0]])
    check_oracle(CallableOracle(lambda row: row.sum()), pool, rtol=0)


@pytest.mark.parametrize("more", [{}, {"timeout": 60}], ids=["here", "child"])
def test_callable_takes_configs_one_by_one(more):
    with CallableOracle(lambda config: config["BLOCK"], **more) as oracle:
        check_oracle(oracle, CONFIGS, one_by_one=True)


def test_recorded_takes_configs_one_by_one():
    check_oracle(make_recorded(), CONFIGS, one_by_one=True)


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


class EachAList(Good):
    def measure_each(self, configs):
        return self.measure(list(configs))


class EachEndless(Good):
    def measure_each(self, configs):
        configs = list(configs)
        yield from itertools.cycle(self.measure(configs)) if configs else ()


class AgainOnlyOnce(Good):
    """Leaves out a config that it has just measured anew."""

    def remeasure_each(self, configs):
        yield from self.measure({c["BLOCK"]: c for c in configs}.values())


class AgainBackwards(Good):
    def remeasure_each(self, configs):
        yield from self.measure(list(configs)[::-1])


class AgainNotEmpty(Good):
    def remeasure_each(self, configs):
        yield from self.measure(list(configs)) or [Measurement(1.0)]


class AgainFloats(Good):
    def remeasure_each(self, configs):
        yield from (answer.duration for answer in self.measure(configs))


class AgainAList(Good):
    def remeasure_each(self, configs):
        return self.measure(list(configs))


class OpenPoolAnswers(Good):
    def open_pool(self, configs):
        return len(list(configs))


class SlowerInASecondPool(Good):
    n_pools = 0

    def open_pool(self, configs):
        self.n_pools += 1

    def measure(self, configs):
        return [Measurement(self.n_pools / config["BLOCK"]) for config in configs]


class PrepareAnswers(Good):
    def prepare(self, configs):
        return list(configs)


class SlowerWhenPrepared(Good):
    prepared = False

    def prepare(self, configs):
        self.prepared = bool(list(configs))

    def measure(self, configs):
        return [Measurement((1 + self.prepared) / c["BLOCK"]) for c in configs]


class NegativeLookahead(Good):
    lookahead = -1


class FractionalLookahead(Good):
    lookahead = 0.5


class NoneParallel(Good):
    n_parallel = 0


class BooleanParallel(Good):
    n_parallel = True


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
        (EachAList, "measure_each must give an iterator, got <class 'list'>"),
        (EachEndless, "measure_each of a generator gave 4 answers to 3"),
        (AgainOnlyOnce, "remeasure_each of a generator gave 3 answers to 4"),
        (AgainBackwards, "remeasure_each and measure: config 0 took"),
        (AgainNotEmpty, r"remeasure_each\(\[\]\) must give nothing"),
        (AgainFloats, r"remeasure_each of a gen.* must give Measurements, but \[0\]"),
        (AgainAList, "remeasure_each must give an iterator, got <class 'list'>"),
        (OpenPoolAnswers, "open_pool must answer None, got 3"),
        (SlowerInASecondPool, "measure before and after open_pool: config 0 took"),
        (PrepareAnswers, r"prepare\(\[\]\) must answer None, got \[\]"),
        (SlowerWhenPrepared, "measure before and after prepare: config 0 took"),
        (NegativeLookahead, "lookahead must be an int of at least 0, got -1"),
        (FractionalLookahead, "lookahead must be an int of at least 0, got 0.5"),
        (NoneParallel, "n_parallel must be an int of at least 1, got 0"),
        (BooleanParallel, "n_parallel must be an int of at least 1, got True"),
        (NoDictionary, "fingerprint must be a dict, got 'H200'"),
        (NoJson, "fingerprint can't be written as JSON"),
        (ChangingFingerprint, "fingerprint differs from call to call"),
    ],
)
def test_faults_are_found(faulty, message):
    with pytest.raises(AssertionError, match=message):
        check_oracle(faulty(), CONFIGS, rtol=0)


class PrepareNeedsLength(Good):
    def prepare(self, configs):
        self.n_prepared = len(configs)


class OpenPoolNeedsLength(Good):
    def open_pool(self, configs):
        self.n_configs = len(configs)


@pytest.mark.parametrize(
    "faulty", [NeedsLength, PrepareNeedsLength, OpenPoolNeedsLength]
)
def test_oracle_that_can_not_take_a_generator_is_found(faulty):
    with pytest.raises(TypeError, match="generator"):
        check_oracle(faulty(), CONFIGS)


class OneByOne(Good):
    def measure_each(self, configs):
        for config in configs:
            yield self.measure([config])[0]


class AgainAllAtOnce(OneByOne):
    def remeasure_each(self, configs):
        yield from self.measure(list(configs))


class InPairs(OneByOne):
    def measure_each(self, configs):
        configs = iter(configs)
        while pair := list(itertools.islice(configs, 2)):
            yield from self.measure(pair)


def test_oracle_that_takes_one_by_one_conforms():
    check_oracle(OneByOne(), CONFIGS, rtol=0, one_by_one=True)


@pytest.mark.parametrize("all_at_once", [Good, InPairs, AgainAllAtOnce])
def test_taking_more_than_is_due_is_allowed_by_default(all_at_once):
    check_oracle(all_at_once(), CONFIGS, rtol=0)


@pytest.mark.parametrize(
    ("faulty", "message"),
    [
        (Good, "measure_each has taken 3 configs from a generator for answer 1"),
        (InPairs, "measure_each has taken 2 configs from a generator for answer 1"),
        (AgainAllAtOnce, "remeasure_each has taken 4 configs from a gen.* answer 1"),
    ],
)
def test_taking_more_than_is_due_is_found_where_it_is_claimed(faulty, message):
    with pytest.raises(AssertionError, match=f"^{message}"):
        check_oracle(faulty(), CONFIGS, one_by_one=True)
