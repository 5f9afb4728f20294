"""A search that is killed again and again ends like one that is left alone."""

import json
import os
import subprocess
import sys
from collections import Counter

import pytest

# Runs in a process of its own, which imports once and then forks: each child searches
# over the same journal until it is killed at a random moment or has finished.
SERVER = r"""
import json, os, pickle, random, signal, sys, time
import numpy as np
from fasta_learn import ActiveConfigSearch, dynamic_filter_search
from fasta_learn.oracles import BaseOracle, JournaledOracle, Measurement

kind, n_kills, directory = sys.argv[1], int(sys.argv[2]), sys.argv[3]
chance = random.Random(kind)
configs = [{"M": 2**i, "N": 2**j} for i in range(8) for j in range(8)]


class LoggingOracle(BaseOracle):
    def __init__(self, log):
        self.log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def measure(self, configs):
        return list(self.measure_each(configs))

    def measure_each(self, configs):
        for config in configs:
            os.write(self.log, (json.dumps(config) + "\n").encode())
            time.sleep(0.001)
            i, j = np.log2(list(config.values()))
            if (i + j) % 5 == 4:
                yield Measurement.failed("compile_error", "too large")
            else:
                yield Measurement(0.1 + 0.02 * (i - 5) ** 2 + 0.01 * (j - 2) ** 2)


def run(name):
    make = {
        "default": lambda: ActiveConfigSearch(budget=0.4, random_state=0),
        "batches": lambda: ActiveConfigSearch(budget=0.4, batch_size=5, random_state=1),
        "production": lambda: dynamic_filter_search(random_state=0),
    }[kind]
    path = os.path.join(directory, name)
    oracle = JournaledOracle(LoggingOracle(path + ".log"), path + ".jsonl")
    search = make().fit(configs, oracle=oracle)
    result = {
        "results": search.results_.to_json(double_precision=15),
        "best": [search.best_index_, search.best_duration_, search.best_config_],
        "rounds": repr(search.rounds_),
        "end": [search.stop_reason_, search.confidence_, search.n_measured_],
    }
    with open(path + ".result", "w") as file:
        json.dump(result, file)


def start(name):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            run(name)
            status = 0
        finally:
            os._exit(status)
    return child


run("warm-up")
taken = []
for name in ("undisturbed", "again"):
    began = time.monotonic()
    status = os.waitpid(start(name), 0)[1]
    assert status == 0, status
    taken.append(time.monotonic() - began)
seconds = min(taken)
kills = []
while sum(kills) < n_kills:
    name = f"killed-{len(kills)}"
    kills.append(0)
    while True:
        child = start(name)
        if sum(kills) < n_kills:
            time.sleep(chance.uniform(0, 0.9 * seconds))
            os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        if not os.WIFSIGNALED(status):
            assert status == 0, status
            break
        kills[-1] += 1
print(json.dumps(kills))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    ("kind", "n_kills"), [("default", 20), ("batches", 15), ("production", 15)]
)
def test_a_killed_search_ends_like_an_undisturbed_one(tmp_path, kind, n_kills):
    # One thread each: a forked child must not wait for threads that it lacks.
    quiet = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    server = subprocess.run(
        [sys.executable, "-c", SERVER, kind, str(n_kills), str(tmp_path)],
        env={**os.environ, **quiet},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert server.returncode == 0, server.stderr
    kills = json.loads(server.stdout)
    assert sum(kills) == n_kills
    expected = json.loads((tmp_path / "undisturbed.result").read_text())
    for number, n_killed in enumerate(kills):
        name = f"killed-{number}"
        assert json.loads((tmp_path / f"{name}.result").read_text()) == expected
        asked = Counter((tmp_path / f"{name}.log").read_text().splitlines())
        n_measured = expected["end"][2]
        assert len(asked) == n_measured
        # What was under way when the kill came is all that is measured again.
        assert asked.total() - n_measured <= n_killed
