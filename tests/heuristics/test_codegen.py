import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fasta_learn.heuristics import (
    ChoiceRanker,
    LogMetadata,
    PadDecisionTree,
    PadFeatures,
    PadHeuristic,
    PadScoreTree,
    generate_code,
    group_inputs,
    read_metrics,
)
from fasta_learn.heuristics._codegen_tree import (
    local_names,
    quote,
    used_columns,
    write_tree,
)
from fasta_learn.heuristics._evaluate_policies import ask_heuristic, load_artifact
from fasta_learn.heuristics._install_code import parse_artifact
from fasta_learn.heuristics._trees_flat import FlatTree

sys.path.insert(0, str(Path(__file__).parent))
from synthetic import A100, make_input, make_log

METADATA = A100.metadata
TREES = {
    "cost": PadDecisionTree(max_leaf_nodes=40, min_samples_leaf=2),
    "bound": PadDecisionTree(max_regret=1.02),
    "unsafe": PadDecisionTree(unsafe_ratio=1.05),
    "upstream": PadDecisionTree("upstream"),
    "production": PadDecisionTree("production"),
    "score": PadScoreTree(),
    "score bound": PadScoreTree(max_regret=1.005),
    "ranker": ChoiceRanker(top_k=1),
}


@pytest.fixture(scope="module")
def inputs():
    return group_inputs(make_log(1200, seed=0, noise=0.03))


@pytest.fixture(scope="module")
def fitted(inputs):
    return {
        name: PadHeuristic(tree, random_state=0).fit(inputs)
        for name, tree in TREES.items()
    }


@pytest.fixture(scope="module")
def new_inputs(inputs):
    new = group_inputs(make_log(300, seed=1))
    new.loc[new.index[:5], "mat2_dtype"] = "torch.float32"
    new["using_tf32"] = new["using_tf32"].astype(str)
    new.loc[new.index[5:10], "using_tf32"] = "perhaps"
    return new


@pytest.mark.parametrize("name", TREES)
def test_generated_code_decides_like_the_estimator(name, fitted, new_inputs):
    code = generate_code(fitted[name], metadata=METADATA, name="PadMMTest")
    answers = ask_heuristic(load_artifact(code), new_inputs)
    assert answers == fitted[name].decide(new_inputs).tolist()
    assert any(answers)
    assert not all(answers)


@pytest.mark.parametrize("name", ["cost", "bound", "unsafe", "upstream", "production"])
def test_generated_policy_decides_like_the_estimator(name, fitted, new_inputs):
    code = generate_code(
        fitted[name], metadata=METADATA, name="PadTest", target="pad_mm_policy"
    )
    answers = ask_heuristic(load_artifact(code), new_inputs)
    assert answers == fitted[name].decide(new_inputs).tolist()


@pytest.mark.parametrize("name", ["cost", "upstream"])
def test_shares_have_full_precision(name, fitted, new_inputs):
    code = generate_code(fitted[name], metadata=METADATA, name="PadMMTest")
    heuristic = load_artifact(code)
    known = new_inputs.iloc[10:60]
    features = fitted[name].features_
    tree = fitted[name].tree_
    shares = tree.predict_proba(fitted[name]._matrix(known))
    sure = [answer is not None for answer in fitted[name].decide(known)]
    assert any(sure)
    found = []
    heuristic.get_choice = lambda code: "orig"
    original = heuristic.get_best_choices

    def record(context):
        found.append(original(context))
        return found[-1]

    heuristic.get_best_choices = record
    ask_heuristic(heuristic, known)
    assert len(features.columns_) == shares.shape[0] or len(found) == len(known)
    for answer, row, is_sure in zip(found, shares, sure, strict=True):
        if is_sure:
            assert answer[0] == (row.max(), int(row.argmax()))


@pytest.mark.parametrize("target", ["learned_heuristic", "pad_mm_policy"])
def test_generated_code_is_formatted(target, fitted, tmp_path):
    code = generate_code(
        fitted["cost"], metadata=METADATA, name="PadMMTest", target=target
    )
    file = tmp_path / "_PadMMTest.py"
    file.write_text(code)
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "--check", file]
    assert subprocess.run(command, capture_output=True).returncode == 0


@pytest.mark.parametrize("name", TREES)
def test_generated_code_is_accepted_by_install(name, fitted):
    code = generate_code(fitted[name], metadata=METADATA, name="PadMMTest")
    artifact = parse_artifact(code)
    assert (artifact.class_name, artifact.name) == ("PadMMTest", "pad_mm")
    assert (artifact.shared_memory, artifact.device_capa) == (166912, (8, 0))


def test_equal_arguments_give_equal_code(inputs):
    first, second = (
        generate_code(
            PadHeuristic(PadDecisionTree(), random_state=0).fit(inputs),
            metadata=METADATA,
            name="PadMMTest",
        )
        for _ in range(2)
    )
    assert first == second


def test_header_tells_where_the_code_comes_from(fitted):
    code = generate_code(
        fitted["cost"],
        metadata=METADATA,
        name="PadMMTest",
        metrics={"regret": 1.0123456789012345, "coverage": 1.0},
        data_hash="0123abcd",
        device="Some\nGPU",
    )
    header = code.split("\n\n")[0]
    assert "# data: 0123abcd" in header
    assert "Some GPU; capability 8.0, 166912 bytes" in header
    assert read_metrics(code) == {"regret": 1.0123456789012345, "coverage": 1.0}
    assert all(line.startswith("#") for line in header.split("\n"))


def test_precondition_holds_only_on_the_device_of_the_log(fitted):
    heuristic = load_artifact(
        generate_code(fitted["cost"], metadata=METADATA, name="PadMMTest")
    )

    class Metadata:
        name, shared_memory, device_capa = "pad_mm", 166912, (8, 0)

    assert heuristic.check_precondition(Metadata, None)
    for change in ({"name": "mm"}, {"shared_memory": 1}, {"device_capa": (9, 0)}):
        other = type("Other", (Metadata,), change)
        assert not heuristic.check_precondition(other, None)


@pytest.mark.parametrize("change", [{"m": None}, {"m": float("nan")}, {"m": "many"}])
def test_generated_code_never_fails_on_strange_features(change, fitted):
    heuristic = load_artifact(
        generate_code(fitted["cost"], metadata=METADATA, name="PadMMTest")
    )

    class Context:
        context_dict = {**make_input(1000, 1001, 1000), **change}

    assert heuristic.get_decision(Context(), ["orig", "pad"]) is None


def test_policy_reads_a_product_and_decides(fitted, inputs):
    policy = load_artifact(
        generate_code(
            fitted["cost"], metadata=METADATA, name="PadTest", target="pad_mm_policy"
        )
    )
    asked = inputs[inputs["mat1_dtype"] != "torch.float32"].head(40)
    plain = asked[(asked["prepadded_mat1"] == "False")]
    plain = plain[plain["prepadded_mat2"] == "False"]
    expected = fitted["cost"].decide(plain)
    for row, choice in zip(plain.itertuples(), expected, strict=True):

        class Product:
            op = "aten.mm.default"
            m, k, n = row.m, row.k, row.n
            mat1_dtype, mat2_dtype = row.mat1_dtype, row.mat2_dtype
            mat1_stride = row.mat1_stride_0, row.mat1_stride_1
            mat2_stride = row.mat2_stride_0, row.mat2_stride_1

        assert policy(Product) is {"pad": True, "orig": False, None: None}[choice]


def test_policy_leaves_other_operations_to_torch(fitted):
    policy = load_artifact(
        generate_code(
            fitted["cost"], metadata=METADATA, name="PadTest", target="pad_mm_policy"
        )
    )
    assert policy(type("Product", (), {"op": "aten.bmm.default"})) is None
    assert policy(type("Product", (), {"op": "aten.mm.default"})) is None


def test_uuid_of_a_policy_follows_its_tree(fitted):
    uuids = {
        load_artifact(
            generate_code(
                fitted[name], metadata=METADATA, name="P", target="pad_mm_policy"
            )
        ).uuid()
        for name in ("cost", "upstream", "production")
    }
    assert len(uuids) == 3


def test_ranking_code_lists_all_shares(tmp_path):
    names = ["extern_mm", "triton_1", "triton_2"]
    rng = np.random.default_rng(0)
    rows = [make_input(*rng.integers(16, 4096, 3).tolist()) for _ in range(200)]
    frame = pd.DataFrame(rows)[["m", "k", "n", "mat1_dtype"]]
    durations = rng.uniform(1, 1.05, (200, 3))
    features = PadFeatures("mm", numerical=["m", "k", "n"], categorical=["mat1_dtype"])
    ranker = PadHeuristic(
        ChoiceRanker(names, top_k=2, near_best=0.9, random_state=0), features=features
    ).fit(frame, durations)
    metadata = LogMetadata("mm", 1, (9, 0), ("m", "k", "n"), ("mat1_dtype",))
    heuristic = load_artifact(generate_code(ranker, metadata=metadata, name="Ranking"))
    values = {**rows[0], "m*k": 0, "m*n": 0, "k*n": 0, "arith_intensity": 0.0}
    for name, product in (("m*k", "mk"), ("m*n", "mn"), ("k*n", "kn")):
        values[name] = rows[0][product[0]] * rows[0][product[1]]
    context = type("Context", (), {"context_dict": values})
    assert heuristic.get_name() == "mm"
    assert heuristic.get_decisions_ranked(context)[:2] == ranker.rank(frame.head(1))[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "cuda"}, "target must be one of"),
        ({"name": "no name"}, "name must be a Python identifier"),
        ({"metrics": {"a b": 1.0}}, "must be named by an identifier"),
    ],
)
def test_arguments_that_are_not_valid_are_refused(options, message, fitted):
    arguments = {"metadata": METADATA, "name": "PadMMTest", **options}
    with pytest.raises(ValueError, match=message):
        generate_code(fitted["cost"], **arguments)


def test_a_policy_needs_a_decision_tree(fitted):
    with pytest.raises(ValueError, match="needs a PadDecisionTree"):
        generate_code(
            fitted["score"], metadata=METADATA, name="P", target="pad_mm_policy"
        )


def random_tree(seed, n_leaves, columns):
    """A tree of random shape whose leaves are numbered."""
    rng = np.random.default_rng(seed)
    feature, threshold, left, right = [-1], [np.nan], [-1], [-1]
    leaves = [0]
    while len(leaves) < n_leaves:
        node = leaves.pop(rng.integers(len(leaves)))
        feature[node] = int(rng.integers(len(columns)))
        number = columns[feature[node]][1] is None
        threshold[node] = float(rng.normal()) if number else 0.5
        for side in (left, right):
            side[node] = len(feature)
            leaves.append(len(feature))
            feature.append(-1)
            threshold.append(np.nan)
            left.append(-1)
            right.append(-1)
    arrays = [np.array(entry) for entry in (feature, threshold, left, right)]
    return FlatTree(*arrays, np.arange(len(feature))[:, None])


@given(st.integers(0, 10**6), st.integers(1, 60))
def test_written_trees_go_the_way_of_the_tree(seed, n_leaves):
    columns = [("x", None), ("y*z", None), ("kind", "it's"), ("kind", "other")]
    tree = random_tree(seed, n_leaves, columns)
    lines = write_tree(tree, columns, str, "    ")
    scope: dict = {}
    exec("def way(x, y_times_z, kind):\n" + "\n".join(lines), scope)
    rng = np.random.default_rng(seed + 1)
    for _ in range(10):
        x, product = rng.normal(size=2)
        kind = ["it's", "other", "third"][rng.integers(3)]
        row = [x, product, kind == "it's", kind == "other"]
        assert scope["way"](x, product, kind) == tree.apply(np.array([row], float))[0]


def test_a_tree_of_many_leaves_on_one_side_is_not_nested_deeply():
    columns = [("x", None)]
    n_leaves = 400
    # Each split cuts off one leaf: nested as drawn, Python would refuse it.
    feature = np.array([0, -1] * (n_leaves - 1) + [-1])
    threshold = np.array([*np.repeat(np.arange(n_leaves - 1.0), 2), 0.0])
    left = np.array([*np.ravel([[2 * i + 1, -1] for i in range(n_leaves - 1)]), -1])
    right = np.array([*np.ravel([[2 * i + 2, -1] for i in range(n_leaves - 1)]), -1])
    tree = FlatTree(feature, threshold, left, right, np.zeros((len(feature), 1)))
    lines = write_tree(tree, columns, str, "    ")
    ast.parse("def way(x):\n" + "\n".join(lines))
    assert max(len(line) - len(line.lstrip()) for line in lines) == 8


def test_names_of_variables_are_valid_and_differ():
    names = local_names(
        ["m*k", "k/(m*n)", "m_times_k", "class", "m*k", "1st", "lambda"]
    )
    assert len(set(names.values())) == len(names) == 6
    assert all(name.isidentifier() for name in names.values())
    ast.parse("\n".join(f"{name} = 1" for name in names.values()))


@given(st.text())
def test_quoted_texts_are_read_back(text):
    assert ast.literal_eval(quote(text)) == text


def test_only_used_columns_are_told():
    columns = [("a", None), ("b", None), ("c", None)]
    tree = random_tree(0, 2, columns[1:2])
    assert used_columns(tree, columns) == [("a", None)]


def test_a_category_that_is_compared_like_a_number_is_refused():
    tree = FlatTree(
        np.array([0, -1, -1]),
        np.array([3.0, np.nan, np.nan]),
        np.array([1, -1, -1]),
        np.array([2, -1, -1]),
        np.zeros((3, 1)),
    )
    with pytest.raises(ValueError, match="must be 0 or 1"):
        write_tree(tree, [("kind", "a")], str, "")
