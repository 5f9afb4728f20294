import json
import os
import sys
from pathlib import Path

import joblib
import pytest

from fasta_learn._cli import _heuristic_collect, main
from fasta_learn.heuristics import (
    SimulatedGPU,
    collect,
    list_installed,
    read_log,
    read_metrics,
)
from fasta_learn.oracles import _child

# Not a folder with __init__.py: helpers are found by path.
sys.path.insert(0, str(Path(__file__).parents[1] / "heuristics"))
from artifacts import make_artifact

STEPS = (
    *("collect", "merge", "train", "generate", "install", "uninstall", "list"),
    *("verify", "evaluate"),
)


@pytest.fixture
def step(capsys, tmp_path, monkeypatch):
    """Run a step in an empty folder, and return what it writes."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, status=0):
        assert main(["heuristic", *map(str, arguments)]) == status
        return capsys.readouterr().out

    return run


@pytest.fixture
def fail(capsys, tmp_path, monkeypatch):
    """Run a step that fails, and return its only line."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, status=2):
        assert main(["heuristic", *map(str, arguments)]) == status
        captured = capsys.readouterr()
        assert captured.out == ""
        (line,) = captured.err.splitlines()
        assert line.startswith("fasta-learn: error: ")
        return line

    return run


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A log of 120 inputs."""
    path = tmp_path_factory.mktemp("log") / "log.txt"
    collect(path, n_samples=120, benchmark=SimulatedGPU(), isolate=False)
    return path


@pytest.fixture(scope="module")
def model(log, tmp_path_factory):
    """A model that a quarter of the shapes had no part in."""
    path = tmp_path_factory.mktemp("model") / "model.joblib"
    arguments = ["--hold-out", "0.25", "--no-teacher", "--max-leaves", "12"]
    assert main(["heuristic", "train", str(log), "-o", str(path), *arguments]) == 0
    return path


@pytest.mark.parametrize("name", STEPS)
def test_help_has_an_example(name, step):
    text = step(name, "--help")
    assert f"example:\n  fasta-learn heuristic {name} " in text


def test_collection_is_written_and_told(step):
    out = step("collect", "pad_mm", "--simulate", "--samples", 8, "-o", "log.txt")
    assert len(read_log("log.txt")) == 48
    assert "8 of 8: 0 known before" in out
    out = step("collect", "pad_mm", "--simulate", "--samples", 9, "-o", "log.txt")
    assert "9 of 9: 8 known before" in out


def test_collection_as_json(step):
    arguments = ("--simulate", "--samples", 4, "--repetitions", 2, "--json")
    found = json.loads(step("collect", "pad_mm", *arguments, "-o", "log.txt"))
    assert (found["n_before"], found["n_measured"], found["is_complete"]) == (
        0,
        4,
        True,
    )
    assert found["device"]["name"] == "simulated"
    assert len(read_log("log.txt")) == 16


def test_collection_that_is_late_ends_with_another_code(step):
    arguments = ("--simulate", "--samples", 8, "--seconds", 1e-9, "-o", "log.txt")
    assert "the same command goes on" in step("collect", "pad_mm", *arguments, status=3)


def test_shapes_of_a_file_come_first(step, tmp_path):
    (tmp_path / "own.csv").write_text("M,K,N,dtype\n1001,1003,1005,float16\n")
    arguments = ("--simulate", "--samples", 3, "--shapes", "own.csv", "-o", "log.txt")
    step("collect", "pad_mm", *arguments)
    first = read_log("log.txt").frame.iloc[0]
    assert (first["m"], first["k"], first["n"]) == (1001, 1003, 1005)


def test_products_are_limited(step):
    arguments = ("--simulate", "--no-known", "--samples", 20, "--max-tflop", 0.5)
    step("collect", "pad_mm", *arguments, "-o", "log.txt")
    frame = read_log("log.txt").frame
    assert (2.0 * frame["m"] * frame["k"] * frame["n"]).max() <= 0.5e12


def test_failed_inputs_are_told_with_their_reason(step, monkeypatch):
    measure = SimulatedGPU.measure

    def fail_once(self, item, n_repetitions):
        if item.dtype == "float32":
            raise RuntimeError("no such kernel")
        return measure(self, item, n_repetitions)

    monkeypatch.setattr(SimulatedGPU, "measure", fail_once)
    shapes = "M,K,N,dtype\n1001,1003,1005,float16\n1001,1003,1007,float32\n"
    Path("own.csv").write_text(shapes)
    arguments = ("--simulate", "--samples", 2, "--shapes", "own.csv", "-o", "log.txt")
    assert "1 × RuntimeError: no such kernel" in step("collect", "pad_mm", *arguments)


def test_collection_shows_how_far_it_is(step, monkeypatch):
    class Recorder:
        shown = []

        def start(self, total):
            self.shown.append(("start", total))

        def update(self, done, text):
            self.shown.append(done)

        def stop(self):
            self.shown.append("stop")

    monkeypatch.setattr(_heuristic_collect, "make_display", Recorder)
    step("collect", "pad_mm", "--simulate", "--samples", 3, "-o", "log.txt")
    assert Recorder.shown == [("start", 3), 1, 2, 3, "stop"]


def test_without_a_gpu_collection_fails_in_a_line(fail, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(_child, "_START_SECONDS", 120.0)
    assert "device 0 can't be measured on" in fail("collect", "pad_mm", "-o", "log.txt")


def test_merge_leaves_out_copies(step, log, tmp_path):
    out = step("merge", log, log, "-o", "merged.txt")
    assert "720 copies left out" in out
    assert (tmp_path / "merged.txt").read_bytes() == log.read_bytes()


def test_merge_tells_of_damaged_lines(step, log, tmp_path):
    lines = log.read_text().splitlines(keepends=True)
    (tmp_path / "cut.txt").write_text("".join(lines[:4]) + "1,2\n" + lines[4])
    assert "cut.txt, line 5: " in step("merge", "cut.txt", "-o", "merged.txt")


def test_merge_counts_what_it_does_not_list(step, log, tmp_path):
    (tmp_path / "cut.txt").write_text(log.read_text() + "1,2\n" * 23)
    out = step("merge", "cut.txt", "-o", "merged.txt")
    assert out.count("cut.txt, line ") == 20
    assert out.endswith("and 3 more lines\n")


def test_merge_of_different_devices_fails_in_a_line(fail, log, tmp_path):
    other = log.read_text().replace('"shared_memory": 200000', '"shared_memory": 1')
    (tmp_path / "other.txt").write_text(other)
    assert "shared_memory" in fail("merge", log, "other.txt", "-o", "merged.txt")


def test_training_tells_how_it_does_on_other_shapes(step, log):
    arguments = ("--no-teacher", "--hold-out", 0.5, "-o", "model.joblib")
    out = step("train", log, *arguments)
    n_held_out = int(out.split("held out  ")[1].split()[0])
    assert 40 < n_held_out < 80
    assert f"from {120 - n_held_out} inputs" in out


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (("--route", "score"), "PadScoreTree"),
        (("--objective", "production"), "PadDecisionTree"),
        (("--no-teacher", "--max-regret", 1.01), "PadDecisionTree"),
    ],
)
def test_routes_and_objectives(step, log, options, name):
    step("train", log, *options, "-o", "model.joblib")
    tree = joblib.load("model.joblib").heuristic.tree_
    assert type(tree).__name__ == name


def test_default_has_a_teacher(step, log, monkeypatch):
    taught = []

    def fit(self, X):
        taught.append(self.tree.teacher)
        raise ValueError("enough")

    monkeypatch.setattr("fasta_learn.heuristics.PadHeuristic.fit", fit)
    step("train", log, "-o", "model.joblib", status=2)
    step("train", log, "--no-teacher", "-o", "model.joblib", status=2)
    assert taught == ["boosting", None]


def test_unknown_combination_fails_in_a_line(fail, log):
    options = ("--route", "score", "--objective", "production")
    assert "knows no objective" in fail("train", log, *options, "-o", "model.joblib")


def test_scores_of_the_recipe_are_learned_from_steady_inputs(step):
    gpu = SimulatedGPU(noise=0.1)
    collect("log.txt", n_samples=300, benchmark=gpu, isolate=False)
    options = ("--route", "score", "--objective", "upstream", "--hold-out", 0)
    step("train", "log.txt", *options, "-o", "model.joblib")
    frame = read_log("log.txt").frame
    features = [name for name in frame if name not in ("choice", "feedback")]
    by_choice = frame.groupby([*features, "choice"], observed=True)["feedback"]
    unsteady = by_choice.std() / by_choice.mean() > 0.05
    n_unsteady = unsteady.groupby(features, observed=True).any().sum()
    assert 0 < n_unsteady < 300
    assert joblib.load("model.joblib").n_inputs == 300 - n_unsteady


@pytest.mark.parametrize("bound", ["0.9", "10", "x"])
def test_bound_of_regret_is_a_ratio(fail, log, bound):
    line = fail("train", log, f"--max-regret={bound}", "-o", "model.joblib")
    assert "is no ratio of at least 1" in line


@pytest.mark.parametrize("share", ["1", "-0.1", "x"])
def test_hold_out_is_a_share(fail, log, share):
    line = fail("train", log, f"--hold-out={share}", "-o", "model.joblib")
    assert "is no share" in line


def test_generated_module_says_where_it_comes_from(step, model, tmp_path):
    step("generate", model, "-o", "_PadMMHere.py")
    code = (tmp_path / "_PadMMHere.py").read_text()
    assert "class PadMMHere(" in code
    assert "# device: simulated;" in code
    assert set(read_metrics(code)) == {
        *("coverage", "accuracy", "regret", "slow", "worst")
    }


def test_generated_policy(step, model, tmp_path):
    step("generate", model, "--target", "pad_mm_policy", "-o", "policy.py")
    assert "PadMMPolicy" in (tmp_path / "policy.py").read_text()


def test_generated_class_needs_a_name(fail, model):
    assert "give --class-name" in fail("generate", model, "-o", "1.py")


def test_other_files_are_no_models(fail, log, tmp_path):
    joblib.dump({"a": 1}, tmp_path / "other.joblib")
    for path in (log, "other.joblib"):
        line = fail("generate", path, "-o", "_PadMM.py")
        assert "is no model of 'fasta-learn heuristic train'" in line


def test_evaluation_leaves_out_what_was_learned_from(step, log, model):
    rows = json.loads(step("evaluate", log, "--model", model, "--json"))
    n_learned = joblib.load(model).n_inputs
    assert {row["n_inputs"] for row in rows} == {120 - n_learned}
    assert [row["policy"] for row in rows] == [
        *(str(model), "always orig", "always pad", "torch's benchmark")
    ]


def test_regret_is_told_in_percent(step, log):
    (row, *_) = json.loads(step("evaluate", log, "--json"))
    told = step("evaluate", log)
    assert f"{100 * (row['regret'] - 1):.2f}%" in told.splitlines()[1]


def test_installed_artifacts_are_evaluated(step, log, tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "_PadMM.py").write_text(make_artifact())
    step("install", "_PadMM.py", "--folder", "mine")
    (artifact,) = list_installed(folder="mine")
    arguments = ("--installed", "--folder", "mine", "--json")
    first, *_ = json.loads(step("evaluate", log, *arguments))
    assert first["policy"] == f"PadMMTest {artifact.hash}"


def test_evaluation_has_a_row_for_each_dtype(step, log):
    out = step("evaluate", log, "--by", "mat1_dtype")
    assert out.count("torch.bfloat16") == 3


def test_evaluation_of_nothing_unseen_fails_in_a_line(fail, step, log):
    arguments = ("--hold-out", 0, "--no-teacher", "-o", "whole.joblib")
    step("train", log, *arguments)
    line = fail("evaluate", log, "--model", "whole.joblib")
    assert "learned from every shape" in line


def test_drift_is_told_by_the_exit_code(step, log, tmp_path):
    pytest.importorskip("torch")
    claim = "# metric regret = 1.001\n"
    (tmp_path / "_PadMM.py").write_text(claim + make_artifact())
    arguments = ("--artifact", "_PadMM.py", "--drift")
    assert "_PadMM.py: train again: " in step("evaluate", log, *arguments, status=1)


def test_evaluation_is_drawn(step, log, tmp_path):
    pytest.importorskip("matplotlib")
    step("evaluate", log, "--plot", "regret.png")
    assert (tmp_path / "regret.png").read_bytes().startswith(b"\x89PNG")


def test_installation_is_listed_and_removed(step, tmp_path):
    (tmp_path / "_PadMM.py").write_text(make_artifact())
    folder = ("--folder", "installed")
    out = step("install", "_PadMM.py", *folder)
    (artifact,) = list_installed(folder="installed")
    assert artifact.hash in out
    assert step("list", *folder).splitlines()[1].split() == [
        *(artifact.hash, "PadMMTest", "pad_mm", "0.0", "200000", "any")
    ]
    (listed,) = json.loads(step("list", "--json", *folder))
    assert listed["path"] == artifact.path
    assert artifact.hash in step("uninstall", artifact.hash[:8], *folder)
    assert step("list", *folder) == "nothing is installed\n"


def test_artifact_is_bound_to_the_device_of_a_log(step, log, tmp_path):
    (tmp_path / "_PadMM.py").write_text(make_artifact())
    step("install", "_PadMM.py", "--like", log, "--folder", "installed")
    (artifact,) = list_installed(folder="installed")
    assert (artifact.device_name, artifact.device_memory) == ("simulated", 141 * 10**9)


def test_log_without_device_can_not_bind(fail, log, tmp_path):
    (tmp_path / "_PadMM.py").write_text(make_artifact())
    (tmp_path / "log.txt").write_bytes(log.read_bytes())
    line = fail("install", "_PadMM.py", "--like", "log.txt", "--folder", "installed")
    assert "nothing beside log.txt tells its device" in line


def test_rival_fails_in_a_line_unless_replaced(step, fail, tmp_path):
    for name, threshold in (("a.py", 1), ("b.py", 2)):
        (tmp_path / name).write_text(make_artifact(threshold=threshold))
    folder = ("--folder", "installed")
    step("install", "a.py", *folder)
    assert "is installed for pad_mm" in fail("install", "b.py", *folder)
    step("install", "b.py", "--replace", *folder)
    (artifact,) = list_installed(folder="installed")
    assert artifact.source == "b.py"


def test_verification(step, model, log, tmp_path):
    pytest.importorskip("torch")
    step("generate", model, "-o", "_PadMM.py")
    assert "is fine: torch takes it" in step("verify", "_PadMM.py", "--log", log)
    (tmp_path / "_PadMM.py").write_text("import os\n")
    assert step("verify", "_PadMM.py", status=1).startswith("problem: ")


def test_missing_file_fails_in_a_line(fail):
    assert "nowhere.txt" in fail("train", "nowhere.txt", "-o", "model.joblib")


def test_a_step_is_needed(fail):
    assert "STEP" in fail()


def test_folder_of_the_user_is_the_default(step, tmp_path, monkeypatch):
    monkeypatch.setenv("FASTA_LEARN_HEURISTICS_DIR", str(tmp_path / "mine"))
    (tmp_path / "_PadMM.py").write_text(make_artifact())
    step("install", "_PadMM.py")
    assert len(os.listdir(tmp_path / "mine")) == 2


def test_a_folder_of_artifacts_that_is_not_there(fail):
    assert "there is no such folder" in fail("list", "--folder", "nowhere")


@pytest.mark.filterwarnings("ignore:no leaf keeps max_regret")
def test_a_tree_that_decides_nothing_has_no_regret(step):
    collect("small.txt", n_samples=40, benchmark=SimulatedGPU(), isolate=False)
    arguments = ("--no-teacher", "--hold-out", 0.25, "-o", "unsure.joblib")
    told = step("train", "small.txt", *arguments, "--max-regret", 1.0)
    assert "0.0 % of them" in told
    assert "nan" not in told
