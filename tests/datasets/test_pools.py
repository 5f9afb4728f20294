import csv
import re
from importlib.resources import files

import pytest

from fasta_learn.datasets import list_pools, load_pool

FOLDER = files("fasta_learn.datasets") / "pools"
NAMES = [
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


def read_rows(name):
    with (FOLDER / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def read_card(name):
    """The cells of a card's tables: the text of the second by that of the first."""
    text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^\| `?(.+?)`? \| (.+) \|$", text, flags=re.MULTILINE))


def is_parameter(column):
    return column != "status" and not column.startswith("duration_")


def test_names_are_sorted_and_complete():
    assert list_pools() == NAMES


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


@pytest.mark.parametrize("name", NAMES)
def test_description_is_the_card_and_how_it_was_recorded(name):
    description = load_pool(name).description
    assert description.startswith(f"# {name}\n")
    assert "NVIDIA H200" in description
    assert "BSD-3-Clause" in description


@pytest.mark.parametrize("name", NAMES)
def test_card_lists_the_parameters_with_their_values(name):
    card, rows = read_card(name), read_rows(name)
    for column in filter(is_parameter, rows[0]):
        values = sorted({int(row[column]) for row in rows})
        assert card[column] == ", ".join(map(str, values))


@pytest.mark.parametrize("name", NAMES)
def test_card_lists_no_other_parameters(name):
    listed = re.findall(r"^\| `(.+?)` \|", (FOLDER / f"{name}.md").read_text(), re.M)
    assert listed == list(filter(is_parameter, read_rows(name)[0]))


@pytest.mark.parametrize("name", NAMES)
def test_card_counts_the_configs(name):
    card, rows = read_card(name), read_rows(name)
    failures = [row["status"] for row in rows if row["status"] != "ok"]
    assert int(card["configs"]) == len(rows)
    assert int(card["failed"].split()[0]) == len(failures)
    for status in set(failures):
        assert status in card["failed"]


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
    durations = [float(row["duration_ms"]) for row in read_rows(name)]
    near = sum(duration <= 1.05 * min(durations) for duration in durations)
    assert int(read_card(name)["within 5 % of the best"]) == near


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_explained(name):
    common = (FOLDER / "README.md").read_text(encoding="utf-8")
    for column in filter(is_parameter, read_rows(name)[0]):
        assert f"`{column}`" in common


@pytest.mark.parametrize(
    ("wrong", "close"),
    [
        ("swiglu", "swiglu_8M"),
        ("MM_8", "mm_8_4096_4096"),
        ("xnet_2048_50257", "xent_2048_50257"),
    ],
)
def test_unknown_name_gets_close_ones(wrong, close):
    with pytest.raises(ValueError, match=rf"close to it: .*{close}"):
        load_pool(wrong)


@pytest.mark.parametrize("name", ["", "zzzz", "../pools/swiglu_8M"])
def test_unknown_name_is_told_how_to_list_all(name):
    with pytest.raises(ValueError, match=r"list_pools\(\) names all 15"):
        load_pool(name)
