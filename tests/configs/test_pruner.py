import itertools
import math
import pickle
import warnings
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from types import SimpleNamespace

import joblib
import pytest
import skops.io
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from fasta_learn.configs import ConfigPruner
from fasta_learn.configs._pruner import _spread
from fasta_learn.exceptions import PruningWarning


def tile(block, sub, **others):
    return {"X0BLOCK": block, "X0BLOCK_SUB": sub, **others}


def prune_by_hand(configs, max_circle_num, min_sub_numel, max_configs):
    """The rules one after the other, on positions, for configs of one or two axes."""
    stay, seen, rest = [], set(), []
    for position, config in enumerate(configs):
        if config.get("from_expert"):
            stay.append(position)
            continue
        circles, numel, pattern = 1, 1, []
        for axis in ("R0", "X0"):
            sub = config.get(f"{axis}BLOCK_SUB")
            if sub is not None:
                numel *= sub
                pattern.append((axis, sub))
                circles *= math.ceil(Fraction(config.get(f"{axis}BLOCK", 1), sub))
        if config.get("circle_num", 0) > 0:
            circles = config["circle_num"]
        key = (circles, tuple(pattern))
        if circles > max_circle_num or numel < min_sub_numel or key in seen:
            continue
        seen.add(key)
        rest.append((numel, position))
    rest.sort()
    if len(rest) > max_configs:
        step = Fraction(len(rest) - 1, max_configs - 1)
        rest = [rest[math.floor(i * step + Fraction(1, 2))] for i in range(max_configs)]
    stay += [position for _, position in rest]
    return [configs[i] for i in sorted(stay)] if stay else configs


@parametrize_with_checks([ConfigPruner()], expected_failed_checks=lambda estimator: {})
def test_sklearn_compatible(estimator, check):
    check(estimator)


def test_tags_say_that_the_input_is_configs():
    tags = get_tags(ConfigPruner())
    assert tags.input_tags.dict
    assert not tags.input_tags.two_d_array
    assert not tags.requires_fit


def test_circle_num_of_at_most_four_stays():
    configs = [tile(128, 32), tile(129, 32), tile(32, 32), tile(8, 32)]
    assert ConfigPruner().fit_transform(configs) == [configs[0], configs[2]]


def test_sub_numel_of_at_least_32_stays():
    configs = [tile(64, 31), tile(64, 32), tile(64, 33)]
    assert ConfigPruner().fit_transform(configs) == configs[1:]


def test_sub_numel_is_the_product_over_the_axes():
    configs = [tile(8, 8, R0BLOCK_SUB=4), tile(8, 8, R0BLOCK_SUB=3)]
    assert ConfigPruner().fit_transform(configs) == configs[:1]


@pytest.mark.parametrize(("own", "stays"), [(4, True), (5, False), (1, True)])
def test_own_circle_num_wins(own, stays):
    configs = [tile(32, 32), tile(4096, 64, circle_num=own)]
    assert (configs[1] in ConfigPruner().fit_transform(configs)) is stays


@pytest.mark.parametrize("own", [0, -1, None, "2"])
def test_own_circle_num_that_is_not_positive_is_passed_over(own):
    configs = [tile(32, 32), tile(4096, 64, circle_num=own)]
    assert ConfigPruner().fit_transform(configs) == configs[:1]


def test_own_circle_num_may_be_an_attribute():
    configs = [
        tile(32, 32),
        SimpleNamespace(kwargs=tile(4096, 64), circle_num=2),
    ]
    assert ConfigPruner().fit_transform(configs) == configs


def test_repeated_circle_num_and_sub_blocks_are_dropped():
    configs = [
        tile(64, 32, num_warps=4),
        tile(50, 32, num_warps=8),  # 2 circles as well
        tile(96, 32, num_warps=4),  # 3 circles
    ]
    assert ConfigPruner().fit_transform(configs) == [configs[0], configs[2]]


def test_sub_blocks_of_other_axes_are_no_repetition():
    configs = [{"X0BLOCK_SUB": 64}, {"R0BLOCK_SUB": 64}]
    assert ConfigPruner().fit_transform(configs) == configs


def test_of_more_than_max_configs_evenly_spaced_ones_stay():
    # Seven sizes, four places: positions 0, 2, 4, 6 of the sorted order.
    sizes = [320, 64, 96, 256, 128, 224, 192]
    configs = [tile(size, size) for size in sizes]
    kept = ConfigPruner(max_configs=4).fit_transform(configs)
    assert [config["X0BLOCK"] for config in kept] == [320, 64, 128, 224]


def test_exactly_max_configs_all_stay():
    configs = [tile(size, size) for size in range(32, 82)]
    assert ConfigPruner().fit_transform(configs) == configs


def test_fifty_of_many_with_both_ends():
    configs = [tile(size, size) for size in range(32, 1032)]
    kept = ConfigPruner().fit_transform(configs)
    assert len(kept) == 50
    assert kept[0] is configs[0]
    assert kept[-1] is configs[-1]


@pytest.mark.parametrize("n_places", [2, 3, 7, 50])
@pytest.mark.parametrize("more", [0, 1, 2, 13, 50, 51, 700])
def test_spread_equals_decimal_rounding(n_places, more):
    n_items = n_places + more
    step = Fraction(n_items - 1, n_places - 1)
    expected = [
        int(
            (Decimal((i * step).numerator) / Decimal((i * step).denominator)).quantize(
                Decimal(1), rounding=ROUND_HALF_UP
            )
        )
        for i in range(n_places)
    ]
    places = _spread(n_items, n_places)
    assert places == expected
    assert len(set(places)) == n_places
    assert (places[0], places[-1]) == (0, n_items - 1)


@pytest.mark.parametrize("as_attribute", [True, False])
def test_experts_always_stay(as_attribute):
    kwargs = tile(4096, 1)
    expert = (
        SimpleNamespace(kwargs=kwargs, from_expert=True)
        if as_attribute
        else {**kwargs, "from_expert": True}
    )
    configs = [tile(32, 32), expert, tile(1, 1)]
    assert ConfigPruner().fit_transform(configs) == configs[:2]


def test_experts_do_not_count_and_are_no_repetition():
    expert = tile(64, 64, from_expert=True)
    configs = [expert, tile(64, 64), tile(96, 96), expert, tile(128, 128)]
    kept = ConfigPruner(max_configs=2).fit_transform(configs)
    assert kept == [configs[i] for i in (0, 1, 3, 4)]


def test_only_experts_left_is_no_reason_for_a_warning():
    configs = [tile(4096, 1, from_expert=True), tile(4096, 1)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ConfigPruner().fit_transform(configs) == configs[:1]


@pytest.mark.parametrize(
    "configs", [[tile(4096, 1), tile(1, 1)], [{"BLOCK_M": 64}, {"BLOCK_M": 128}]]
)
def test_nothing_left_gives_everything_back_with_a_warning(configs):
    with pytest.warns(PruningWarning, match="none of the 2 configs"):
        kept = ConfigPruner().fit_transform(configs)
    assert all(a is b for a, b in zip(kept, configs, strict=True))


def test_the_objects_themselves_stay():
    configs = [SimpleNamespace(kwargs=tile(32, 32)), tile(64, 64)]
    kept = ConfigPruner().fit_transform(configs)
    assert all(a is b for a, b in zip(kept, configs, strict=True))


def test_no_configs_give_no_configs():
    assert ConfigPruner().fit_transform([]) == []


SIZES = st.sampled_from([1, 2, 8, 31, 32, 64, 96, 128])
TILES = st.fixed_dictionaries(
    {"X0BLOCK": SIZES},
    optional={
        "X0BLOCK_SUB": SIZES,
        "R0BLOCK": SIZES,
        "R0BLOCK_SUB": SIZES,
        "circle_num": st.integers(-1, 6),
        "from_expert": st.booleans(),
        "num_warps": st.integers(1, 2),
    },
)


@pytest.mark.filterwarnings("ignore::fasta_learn.exceptions.PruningWarning")
@given(
    st.lists(TILES, max_size=40),
    st.integers(1, 6),
    st.integers(0, 128),
    st.integers(2, 8),
)
def test_equals_the_rules_by_hand(configs, max_circle_num, min_sub_numel, max_configs):
    pruner = ConfigPruner(
        max_circle_num, min_sub_numel=min_sub_numel, max_configs=max_configs
    )
    expected = prune_by_hand(configs, max_circle_num, min_sub_numel, max_configs)
    kept = pruner.fit_transform(configs)
    assert list(map(id, kept)) == list(map(id, expected))


def test_grid_by_hand_with_the_defaults():
    configs = [
        {"X0BLOCK": x, "X0BLOCK_SUB": s, "R0BLOCK_SUB": r}
        for x, s, r in itertools.product(
            [16, 64, 256, 1024], [1, 2, 4, 8, 16, 32, 64, 128], [1, 4, 16, 64, 256]
        )
    ]
    kept = ConfigPruner().fit_transform(configs)
    assert kept == prune_by_hand(configs, 4, 32, 50)
    assert 1 < len(kept) < len(configs)


def test_configs_without_names_are_refused():
    with pytest.raises(TypeError, match=r"configs\[1\] is of type list"):
        ConfigPruner().fit_transform([{"a": 1}, [1, 2]])


def test_wrong_block_names_the_config():
    with pytest.raises(ValueError, match=r"configs\[1\]\['X0BLOCK_SUB'\] is 0"):
        ConfigPruner().fit_transform([tile(32, 32), tile(32, 0)])


def test_recorded_durations_can_not_be_dropped():
    with pytest.raises(ValueError, match=r"keeps 1 of 2 configs"):
        ConfigPruner().fit_transform([tile(32, 32), tile(1, 1)], y=[1.0, 2.0])


def test_recorded_durations_may_stay():
    configs = [tile(32, 32), tile(64, 64)]
    assert ConfigPruner().fit_transform(configs, y=[1.0, 2.0]) == configs


@pytest.mark.parametrize(
    "parameters", [{"max_circle_num": 0}, {"min_sub_numel": -1}, {"max_configs": 1}]
)
def test_wrong_parameters_are_refused(parameters):
    with pytest.raises(ValueError, match=next(iter(parameters))):
        ConfigPruner(**parameters).fit([])


def test_transform_needs_no_fit():
    assert ConfigPruner().transform([tile(32, 32)]) == [tile(32, 32)]


class Counter(BaseEstimator):
    """Stands for a search: takes configs without durations."""

    def fit(self, X, y=None):
        self.n_configs_ = len(X)
        return self


@pytest.mark.parametrize("output", ["default", "pandas"])
def test_in_a_pipeline(output):
    pipeline = Pipeline([("prune", ConfigPruner()), ("search", Counter())])
    pipeline.set_output(transform=output)
    pipeline.fit([tile(32, 32), tile(1, 1), tile(64, 64)])
    assert pipeline["search"].n_configs_ == 2


def round_trip_joblib(estimator, path):
    joblib.dump(estimator, path / "pruner.joblib")
    return joblib.load(path / "pruner.joblib")


def round_trip_skops(estimator, path):
    data = skops.io.dumps(estimator)
    return skops.io.loads(data, trusted=skops.io.get_untrusted_types(data=data))


@pytest.mark.parametrize(
    "round_trip",
    [
        lambda e, path: clone(e),
        lambda e, path: pickle.loads(pickle.dumps(e)),
        round_trip_joblib,
        round_trip_skops,
    ],
    ids=["clone", "pickle", "joblib", "skops"],
)
def test_persistence(round_trip, tmp_path):
    again = round_trip(ConfigPruner(2, max_configs=7), tmp_path)
    assert again.get_params() == {
        "max_circle_num": 2,
        "min_sub_numel": 32,
        "max_configs": 7,
    }


def test_html_repr():
    assert "ConfigPruner" in ConfigPruner()._repr_html_()
