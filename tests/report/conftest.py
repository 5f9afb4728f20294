import json
from html.parser import HTMLParser

import pandas as pd
import pytest

from fasta_learn import ActiveConfigSearch
from fasta_learn.datasets import load_pool
from fasta_learn.oracles import (
    CallableOracle,
    JournaledOracle,
    Measurement,
    RecordedOracle,
)

# The others have to be closed; those of SVG close themselves.
_VOID = {"meta", "link"}


class Page(HTMLParser):
    """Reads a page, and refuses one that is not well-formed."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.words = [], [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names))
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def all(self, name):
        return [attrs for tag, attrs in self.tags if tag == name]


@pytest.fixture
def parse():
    """Read a page as a browser would."""
    return Page


@pytest.fixture(scope="session")
def pool():
    """A shipped pool of which 15 configs fail."""
    return load_pool("attention_causal_8_2048_128")


@pytest.fixture(scope="session")
def search(pool):
    """A search over half of it."""
    return ActiveConfigSearch(budget=0.5, random_state=0).fit(
        pool.configs, oracle=RecordedOracle.from_pool(pool)
    )


@pytest.fixture
def results_path(tmp_path, search):
    """The table of results of the search."""
    path = tmp_path / "results.csv"
    search.results_.to_csv(path, index=False)
    return path


@pytest.fixture
def full_path(tmp_path, search, pool):
    """The table of results, and the parameters of the configs."""
    path = tmp_path / "full.csv"
    results = search.results_
    configs = pd.DataFrame(pool.configs).iloc[results["index"]].reset_index(drop=True)
    results.join(configs).to_csv(path, index=False)
    return path


@pytest.fixture
def write_journal(tmp_path):
    """Write a journal of configs and what measuring each of them gives."""

    def write(answers, name="journal.jsonl", fingerprint=None):
        path = tmp_path / name
        given = iter([answer for _, answer in answers])
        oracle = CallableOracle(lambda config: next(given))
        journal = JournaledOracle(oracle, path, fingerprint=fingerprint or {})
        journal.measure([config for config, _ in answers])
        return path

    return write


@pytest.fixture
def small_journal(write_journal):
    """Seven configs by hand: two fail, and the fifth is the fastest."""
    tiles = [16, 32, 64, 128, 256, 512, 1024]
    answers = [4.0, 2.0, 3.0, None, 0.5, None, 1.0]
    reasons = iter(["shared memory: 9 of <4> bytes", "shared memory: 99 of <4> bytes"])
    return write_journal(
        [
            (
                {"BLOCK": tile, "num_warps": 4},
                Measurement.failed(
                    "out_of_resources", next(reasons), compile_seconds=0.25
                )
                if answer is None
                else Measurement(
                    answer,
                    compile_seconds=0.5,
                    run_seconds=0.125,
                    duration_p20=0.9 * answer,
                    duration_p80=1.1 * answer,
                ),
            )
            for tile, answer in zip(tiles, answers, strict=True)
        ],
        fingerprint={"kernel": "add<kernel>", "device": "H200", "versions": {"a": "1"}},
    )


@pytest.fixture
def large_journal(tmp_path, small_journal):
    """3,000 configs, written as a journal is, but without syncing each line."""
    header = small_journal.read_text().splitlines()[0]
    lines = [header]
    for i in range(3_000):
        config = {"x0": i, "x1": i * 7919 % 4099}
        measurement = {"duration": 2.0 + (config["x1"] / 4099), "status": "ok"}
        key = json.dumps(config, separators=(",", ":"))
        lines.append(
            json.dumps({"key": key, "config": config, "measurement": measurement})
        )
    path = tmp_path / "large.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path
