import io

import pandas as pd
import pytest

from fasta_learn._cli import main
from fasta_learn.configs import Pool, write_pool
from fasta_learn.datasets import list_pools
from fasta_learn.experiments import replay

POOL = "gemv_11008_4096"


@pytest.fixture(scope="module")
def pool_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("pools") / "ramp.csv"
    durations = [1.0 + i / 10 for i in range(20)]
    write_pool(Pool([{"B": i} for i in range(20)], durations), path)
    return str(path)


def run(capsys, *argv):
    status = main(["replay", *argv])
    out, err = capsys.readouterr()
    return status, out, err


def test_table_has_a_line_for_each_search_and_budget(capsys, pool_file):
    status, out, _ = run(
        capsys, pool_file, "--seeds=2", "--search", "reference", "random", "--budget",
        "10%", "0.5", "3",
    )  # fmt: skip
    lines = [line.split()[:2] for line in out.splitlines()[3:]]
    assert status == 0
    assert lines == [[s, b] for s in ("reference", "random") for b in ("10", "50", "3")]


def test_numbers_are_those_of_the_replay(capsys, pool_file):
    _, out, _ = run(capsys, pool_file, "--seeds=5", "--search=random", "--budget=4")
    results = replay(pool_file, ["random"], [4], 5)
    cells = out.splitlines()[-1].split()
    assert cells[2] == f"{results['catch'].mean():.3f}"
    assert cells[4] == f"{100 * results['regret'].mean():.2f}"
    assert cells[-2:] == ["80.0", "%"]


def test_headline_counts_pools_and_seeds(capsys, pool_file):
    _, out, _ = run(
        capsys, pool_file, POOL, "--seeds=3", "--search=random", "--budget=2"
    )
    assert out.startswith("2 pools, 3 seeds;")


def test_nothing_but_the_table_when_piped(capsys, pool_file):
    _, out, err = run(capsys, pool_file, "--seeds=1", "--search=random")
    assert err == ""
    assert "\x1b" not in out


def test_noise_judges_by_the_named_config(capsys):
    _, out, _ = run(
        capsys, POOL, "--seeds=3", "--search", "default", "racing", "--budget=30",
        "--noise=4",
    )  # fmt: skip
    results = replay(POOL, ["default", "racing"], [30], 3, noise=4.0)
    assert out.splitlines()[0].endswith("noise: 4 times that recorded")
    for line, name in zip(out.splitlines()[-2:], ["default", "racing"], strict=True):
        regret = results.loc[results["search"] == name, "regret"].mean()
        assert line.split()[0] == name
        assert line.split()[4] == f"{100 * regret:.2f}"


def test_race_is_not_among_the_searches_by_default(capsys):
    _, out, _ = run(capsys, POOL, "--seeds=1", "--budget=2")
    assert "racing" not in out


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_bar_on_a_terminal(monkeypatch, pool_file):
    pytest.importorskip("rich")
    out, err = Terminal(), Terminal()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    assert main(["replay", pool_file, "--seeds=2", "--search=random"]) == 0
    assert "replaying" in err.getvalue()
    assert "replaying" not in out.getvalue()


def test_no_bar_without_rich(monkeypatch, pool_file):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    err = Terminal()
    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setattr("sys.stderr", err)
    assert main(["replay", pool_file, "--seeds=2", "--search=random"]) == 0
    assert err.getvalue() == ""


def test_original_pools_by_default(capsys, tmp_path):
    path = tmp_path / "runs.csv"
    _, out, _ = run(
        capsys, "--seeds=1", "--search=random", "--budget=1", f"--csv={path}"
    )
    assert out.startswith("15 pools")
    assert set(pd.read_csv(path)["pool"]) == set(list_pools("original"))


def test_pools_of_both_collections_by_name(capsys):
    _, out, _ = run(
        capsys, "swiglu_8M", "adamw_6M", "--seeds=1", "--search=random", "--budget=1"
    )
    assert out.startswith("2 pools")


def test_help_lists_the_shipped_pools_by_collection(capsys):
    assert main(["replay", "--help"]) == 0
    names = " ".join(capsys.readouterr().out.split())
    assert "in original: attn_16_4096_128, " in names
    assert "in kernels: adamw_6M, " in names
    assert "in the collection original" in names


def test_limit_of_measurements(capsys, pool_file):
    _, out, _ = run(
        capsys, pool_file, "--seeds=1", "--search=random", "--budget=0.5",
        "--max-measurements=5",
    )  # fmt: skip
    assert out.split()[-2:] == ["75.0", "%"]


def test_parallel_is_the_same(capsys, pool_file):
    argv = [pool_file, "--seeds=3", "--search", "default", "--budget=0.3"]
    assert run(capsys, *argv) == run(capsys, *argv, "--jobs=2")


def test_csv_holds_every_run(capsys, tmp_path, pool_file):
    path = tmp_path / "runs.csv"
    run(
        capsys, pool_file, "--seeds=4", "--search=random", "--budget=4",
        f"--csv={path}", f"--plot={tmp_path / 'regret.png'}",
    )  # fmt: skip
    expected = replay(pool_file, ["random"], [4], 4)
    pd.testing.assert_frame_equal(pd.read_csv(path), expected, check_exact=True)


@pytest.mark.parametrize(("ending", "magic"), [("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_plot_is_of_the_kind_of_its_name(capsys, tmp_path, pool_file, ending, magic):
    pytest.importorskip("matplotlib")
    path = tmp_path / f"regret.{ending}"
    run(capsys, pool_file, "--seeds=1", "--search=random", f"--plot={path}")
    assert path.read_bytes().startswith(magic)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["no_such_pool"], "no pool named 'no_such_pool'"),
        (["missing.csv"], "missing.csv: No such file"),
        ([POOL, POOL], "two pools are called"),
        ([POOL, "--search", "luck"], "invalid choice: 'luck'"),
        ([POOL, "--budget", "1.5"], "'1.5' is neither a share"),
        ([POOL, "--budget", "0"], "'0' is neither a share"),
        ([POOL, "--budget", "x%"], "'x%' is neither a share"),
        ([POOL, "--budget", "1", "1.0"], "which is there already"),
        ([POOL, "--seeds", "0"], "'0' is no whole number"),
        ([POOL, "--max-measurements", "-3"], "is no whole number"),
        ([POOL, "--noise", "-1"], "noise must be a finite number of at least 0"),
        ([POOL, "--noise", "much"], "invalid float value: 'much'"),
        ([POOL, "--plot", "regret.wmf"], "can't draw a wmf"),
        ([POOL, "--plot", "regret"], "can't draw a file without ending"),
        ([POOL, "--csv", "/no/such/folder/x.csv"], "its folder does not exist"),
    ],
)
def test_misuse_is_one_line_and_status_two(capsys, argv, message):
    status, out, err = run(capsys, *argv)
    assert (status, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
