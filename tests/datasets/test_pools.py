import ast
import csv
import gzip
import re
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from fasta_learn.configs import read_pool, write_pool
from fasta_learn.datasets import list_pools, load_pool

FOLDER = files("fasta_learn.datasets") / "pools"
KERNELS = Path(__file__).parents[1] / "benchmarks" / "kernels" / "__init__.py"
ORIGINAL = [
    "attn_16_4096_128",
    "bmm_12_1023_1023_63",
    "bmm_96_512_64_512",
    "cumsum_4096_8192",
    "dequant_1_8192_8192",
    "gather_sum_4096_32_768",
    "gemv_11008_4096",
    "mm_2048_2048_2048",
    "mm_500_512_30000",
    "mm_8_4096_4096",
    "rmsnorm_3000_1000",
    "rmsnorm_8192_5120",
    "rope_4096_32_128",
    "swiglu_8M",
    "xent_2048_50257",
]
COSTS = ("compile_seconds", "registers", "spills", "shared_bytes")


def kernel_names():
    """The keys of POOLS; importing the kernels would need triton."""
    tree = ast.parse(KERNELS.read_text(encoding="utf-8"))
    (pools,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and node.targets[0].id == "POOLS"
    )
    return sorted(key.value for key in pools.keys)


RECORDED = kernel_names()
NAMES = ORIGINAL + RECORDED


def folder_of(name):
    return FOLDER / ("original" if name in ORIGINAL else "kernels")


def read_rows(name):
    folder = folder_of(name)
    if name in ORIGINAL:
        text = (folder / f"{name}.csv").read_text(encoding="utf-8")
    else:
        data = (folder / f"{name}.csv.gz").read_bytes()
        text = gzip.decompress(data).decode()
    return list(csv.DictReader(text.splitlines()))


def read_text(name):
    return (folder_of(name) / f"{name}.md").read_text(encoding="utf-8")


def read_card(name):
    """The cells of a card's tables: the text of the second by that of the first."""
    rows = re.findall(r"^\| `?(.+?)`? \| (.+) \|$", read_text(name), re.MULTILINE)
    return dict(rows)


def is_parameter(column):
    other = column == "status" or column in COSTS
    return not other and not column.startswith("duration_")


def numbers(rows, column):
    return [float(row[column] or "nan") for row in rows]


@pytest.mark.parametrize(
    ("collection", "names"),
    [("original", ORIGINAL), ("kernels", RECORDED), (None, sorted(NAMES))],
)
def test_names_are_sorted_and_complete(collection, names):
    assert list_pools(collection) == names


def test_both_collections_are_the_default():
    assert list_pools() == list_pools(None)


def test_no_name_occurs_twice():
    assert len(set(list_pools())) == len(list_pools()) == 60


@pytest.mark.parametrize(
    "collection", ["", "Kernels", "all", "kernels/..", ["kernels"]]
)
def test_unknown_collection_is_told_the_known_ones(collection):
    with pytest.raises(ValueError, match="must be 'original', 'kernels', or None"):
        list_pools(collection)


@pytest.mark.parametrize("name", NAMES)
def test_pool_holds_what_its_file_holds(name):
    pool, rows = load_pool(name), read_rows(name)
    assert pool.name == name
    assert pool.status == [row["status"] for row in rows]
    assert pool.durations.tolist() == [float(row["duration_ms"]) for row in rows]
    assert pool.configs == [
        {column: int(cell) for column, cell in row.items() if is_parameter(column)}
        for row in rows
    ]


@pytest.mark.parametrize("name", RECORDED)
def test_other_measured_columns_reach_the_pool(name):
    extra, rows = load_pool(name).extra, read_rows(name)
    assert list(extra) == ["duration_p20_ms", "duration_p80_ms", *COSTS]
    for column in extra:
        np.testing.assert_array_equal(extra[column], numbers(rows, column))


@pytest.mark.parametrize("name", RECORDED)
def test_what_was_measured_of_each_config(name):
    pool = load_pool(name)
    ran = np.isfinite(pool.durations)
    # A config that failed was compiled, but has no durations or registers.
    assert (pool.extra["compile_seconds"] > 0).all()
    assert (pool.extra["shared_bytes"] >= 0).all()
    for column in ("duration_p20_ms", "duration_p80_ms", "registers", "spills"):
        np.testing.assert_array_equal(pool.extra[column].notna(), ran)


@pytest.mark.parametrize("name", NAMES)
def test_median_lies_between_its_quantiles(name):
    pool = load_pool(name)
    ran = np.isfinite(pool.durations)
    median, extra = pool.durations[ran], pool.extra[ran]
    assert (extra["duration_p20_ms"] <= median).all()
    assert (median <= extra["duration_p80_ms"]).all()


@pytest.mark.parametrize("name", RECORDED)
def test_failures_are_kept_with_their_reasons(name):
    pool = load_pool(name)
    failures = [status for status in pool.status if status != "ok"]
    assert len(failures) == np.isinf(pool.durations).sum()
    for status in failures:
        kind, _, reason = status.partition(": ")
        assert kind == "out_of_resources"
        assert re.search(r"shared memory, Required: \d+, Hardware limit: \d+", reason)


def test_some_recorded_pools_have_failures():
    failed = [name for name in RECORDED if set(load_pool(name).status) != {"ok"}]
    assert len(failed) == 12


@pytest.mark.parametrize("kind", [".csv", ".csv.gz"])
@pytest.mark.parametrize("name", ["layer_norm_6000_2304", "int8_matmul_2048_2560_2048"])
def test_recorded_pool_survives_being_written(tmp_path, name, kind):
    pool, path = load_pool(name), tmp_path / f"{name}{kind}"
    write_pool(pool, path)
    again = read_pool(path)
    assert (again.name, again.status, again.configs) == (
        name,
        pool.status,
        pool.configs,
    )
    assert again.durations.tolist() == pool.durations.tolist()
    assert again.extra.equals(pool.extra)


@pytest.mark.parametrize("name", NAMES)
def test_description_is_the_card_and_how_it_was_recorded(name):
    readme = (folder_of(name) / "README.md").read_text(encoding="utf-8")
    description = load_pool(name).description
    assert description == f"{read_text(name)}\n{readme}"
    assert description.startswith(f"# {name}\n")
    assert "NVIDIA H200" in description
    assert "BSD-3-Clause" in description


@pytest.mark.parametrize("name", RECORDED)
def test_card_says_what_was_recorded_and_how(name):
    text, card = read_text(name), read_card(name)
    sentences = " ".join(text.split("\n\n")[1].split())
    assert re.search(r"were checked against PyTorch\.$", sentences)
    assert set(card) >= {"kernel", "shape", "data types", "timing", "date"}
    assert card["device"] == "NVIDIA H200"
    assert "torch 2.11.0" in card["versions"]
    assert "triton 3.6.0" in card["versions"]
    assert "None" not in text


def test_cards_of_recorded_pools_begin_in_their_own_way():
    sentences = {read_text(name).split("\n\n")[1] for name in RECORDED}
    assert len(sentences) == len(RECORDED)


@pytest.mark.parametrize("name", NAMES)
def test_card_lists_the_parameters_with_their_values(name):
    card, rows = read_card(name), read_rows(name)
    for column in filter(is_parameter, rows[0]):
        values = sorted({int(row[column]) for row in rows})
        assert card[column] == ", ".join(map(str, values))


@pytest.mark.parametrize("name", NAMES)
def test_card_lists_no_other_parameters(name):
    listed = re.findall(r"^\| `(.+?)` \|", read_text(name), re.M)
    assert listed == list(filter(is_parameter, read_rows(name)[0]))


@pytest.mark.parametrize("name", NAMES)
def test_card_counts_the_configs(name):
    card, rows = read_card(name), read_rows(name)
    failures = [row["status"] for row in rows if row["status"] != "ok"]
    assert int(card["configs"]) == len(rows)
    assert int(card["failed"].split()[0]) == len(failures)


@pytest.mark.parametrize("name", NAMES)
def test_card_tells_the_kinds_of_failures(name):
    text = read_text(name)
    for row in read_rows(name):
        assert row["status"] == "ok" or row["status"].partition(": ")[0] in text


@pytest.mark.parametrize("name", NAMES)
def test_card_has_the_best_config(name):
    card, rows = read_card(name), read_rows(name)
    best = min(rows, key=lambda row: float(row["duration_ms"]))
    duration, unit = card["best duration"].split()
    assert unit == "ms"
    assert float(duration) == pytest.approx(float(best["duration_ms"]), rel=1e-4)
    assert card["best config"] == ", ".join(
        f"{column}={cell}" for column, cell in best.items() if is_parameter(column)
    )


@pytest.mark.parametrize("name", NAMES)
def test_card_counts_the_near_optimal(name):
    durations = numbers(read_rows(name), "duration_ms")
    near = sum(duration <= 1.05 * min(durations) for duration in durations)
    assert int(read_card(name)["within 5 % of the best"]) == near


@pytest.mark.parametrize("name", NAMES)
def test_columns_are_explained(name):
    common = (folder_of(name) / "README.md").read_text(encoding="utf-8")
    for column in read_rows(name)[0]:
        assert f"`{column}`" in common


@pytest.mark.parametrize(
    ("wrong", "close"),
    [
        ("swiglu", "swiglu_8M"),
        ("MM_8", "mm_8_4096_4096"),
        ("xnet_2048_50257", "xent_2048_50257"),
        ("adamw", "adamw_6M"),
    ],
)
def test_unknown_name_gets_close_ones(wrong, close):
    with pytest.raises(ValueError, match=rf"close to it: .*{close}"):
        load_pool(wrong)


@pytest.mark.parametrize(
    "name", ["", "zzzz", "../original/swiglu_8M", "README", "adamw_6M.csv.gz"]
)
def test_unknown_name_is_told_how_to_list_all(name):
    with pytest.raises(ValueError, match=r"list_pools\(\) names all 60"):
        load_pool(name)
