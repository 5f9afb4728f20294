"""One journal and several that measure: processes, threads, killed ones."""

import multiprocessing
import random
import time

import joblib
import pytest

from fasta_learn.oracles import BaseOracle, CallableOracle, JournaledOracle, Measurement

CONFIGS = [{"BLOCK": block} for block in (16, 32, 64, 128)]

# Durations have an inexact binary form, so that a lossy file would be noticed.
SCRIPT = """
import sys, time
from fasta_learn.oracles import CallableOracle, JournaledOracle

def measure(config):
    with open(sys.argv[2], "a") as calls:
        calls.write(f"{config['i']}\\n")
    time.sleep(0.005)  # so that neither is done before the other has started
    return config["i"] / 7

configs = [{"i": i} for i in range(200)][:: int(sys.argv[3])]
journal = JournaledOracle(CallableOracle(measure), sys.argv[1])
journal.measure(configs)
print(journal.n_measured, journal.n_replayed)
"""


class CountingOracle(BaseOracle):
    """Take 1000 / BLOCK ms, and remember what was asked."""

    def __init__(self):
        self.asked = []

    def measure(self, configs):
        self.asked += list(configs)
        return [Measurement(1000 / config["BLOCK"]) for config in configs]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.jsonl"


def n_lines(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0


def lines_of(path):
    return path.read_text(encoding="utf-8").splitlines()


def test_measurements_of_another_journal_are_taken_over(path):
    one, other = (JournaledOracle(CountingOracle(), path) for _ in range(2))
    one.measure(CONFIGS[:1])
    other.measure(CONFIGS[:3])
    one.measure(CONFIGS)
    assert one.oracle.asked == [CONFIGS[0], CONFIGS[3]]


def test_config_that_another_measured_during_the_batch_is_left_out(path):
    other = JournaledOracle(CountingOracle(), path, fingerprint={})

    def measure(config):
        other.measure(CONFIGS[1:3])
        return 1.0

    journal = JournaledOracle(CallableOracle(measure), path, fingerprint={})
    answers = journal.measure(CONFIGS)
    assert (journal.n_measured, journal.n_replayed) == (2, 2)
    assert answers[1:3] == CountingOracle().measure(CONFIGS[1:3])


def test_config_that_another_measured_between_two_answers_is_left_out(path):
    journal = JournaledOracle(CallableOracle(lambda c: 1.0), path, fingerprint={})
    answers = journal.measure_each(CONFIGS)
    next(answers)
    JournaledOracle(CountingOracle(), path, fingerprint={}).measure(CONFIGS)
    assert list(answers) == CountingOracle().measure(CONFIGS)[1:]
    assert (journal.n_measured, journal.n_replayed) == (1, 3)


@pytest.mark.parametrize("last", [2, 4])
def test_config_that_another_was_first_with_is_recorded_once(path, last):
    other = JournaledOracle(CountingOracle(), path, fingerprint={})

    class Overtaken(BaseOracle):
        def measure(self, configs):
            other.measure(CONFIGS[:last])
            return [Measurement(99.0)] * len(configs)

    journal = JournaledOracle(Overtaken(), path, fingerprint={})
    answers = journal.measure(CONFIGS)
    assert answers[:last] == CountingOracle().measure(CONFIGS[:last])
    assert [config for config, _ in JournaledOracle.read(path)] == CONFIGS


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_parallel_measurements_are_recorded_in_order(path, n_jobs):
    configs = [{"BLOCK": block} for block in range(50)]
    inner = CallableOracle(lambda config: config["BLOCK"], n_jobs=n_jobs)
    with joblib.parallel_config(backend="threading"):
        JournaledOracle(inner, path).measure(configs)
    assert [config for config, _ in JournaledOracle.read(path)] == configs


def test_no_descriptor_is_kept(path, processes):
    before = processes.n_descriptors()
    journal = JournaledOracle(CountingOracle(), path)
    journal.measure(CONFIGS)
    assert processes.n_descriptors() == before


def test_two_processes_share_a_journal(path, tmp_path, start_script):
    calls = [tmp_path / "calls_1", tmp_path / "calls_2"]
    running = [
        start_script(SCRIPT, path, calls[0], 1),
        start_script(SCRIPT, path, calls[1], -1),
    ]
    counts = [process.communicate()[0].split() for process in running]
    recorded = [(config["i"], a.duration) for config, a in JournaledOracle.read(path)]
    assert sorted(recorded) == [(i, i / 7) for i in range(200)]
    assert len(lines_of(path)) == 1 + 200
    n_calls = sum(len(lines_of(file)) for file in calls)
    assert sum(int(n_measured) for n_measured, _ in counts) == n_calls
    assert 200 <= n_calls <= 201  # the two meet once, at most on one config


def measure_all(path, calls):
    def measure(config):
        with calls.open("a") as stream:
            stream.write(f"{config['i']}\n")
        return config["i"] / 7

    configs = [{"i": i} for i in range(200)]
    JournaledOracle(CallableOracle(measure), path).measure(configs)


def test_killed_process_loses_nothing_that_was_recorded(path, tmp_path):
    calls = tmp_path / "calls"
    fork = multiprocessing.get_context("fork")
    generator = random.Random(0)
    for n_before_kill in sorted(generator.sample(range(1, 190), 15)):
        process = fork.Process(target=measure_all, args=(path, calls))
        process.start()
        while process.is_alive() and n_lines(path) <= n_before_kill:
            time.sleep(0.0005)
        time.sleep(generator.uniform(0, 0.002))
        process.kill()
        process.join()
    n_recorded = len(JournaledOracle.read(path))
    n_called = n_lines(calls)
    measure_all(path, calls)
    assert n_lines(calls) == n_called + 200 - n_recorded
    assert n_called <= n_recorded + 15  # one may be under way at each kill
    answers = [(config["i"], a.duration) for config, a in JournaledOracle.read(path)]
    assert answers == [(i, i / 7) for i in range(200)]
