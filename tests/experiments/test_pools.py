import pytest
from numpy.testing import assert_array_equal

from fasta_learn.configs import Pool, write_pool
from fasta_learn.experiments._pools import resolve_pools

SHIPPED = "gemv_11008_4096"


def test_one_pool_is_as_good_as_a_list(pool):
    assert list(resolve_pools(pool)) == ["toy"]


def test_mapping_renames_pools(pool):
    assert resolve_pools({"mine": pool}) == {"mine": pool}


def test_name_of_a_shipped_pool_loads_it():
    assert len(resolve_pools(SHIPPED)[SHIPPED]) == 200


@pytest.mark.parametrize("as_text", [True, False])
def test_path_is_read(tmp_path, pool, as_text):
    path = tmp_path / "copy.csv"
    write_pool(pool, path)
    read = resolve_pools([str(path) if as_text else path])["copy"]
    assert_array_equal(read.durations, pool.durations)


def test_nameless_pools_are_called_by_position():
    bare = [Pool([{"B": 1}], [1.0]), Pool([{"B": 1}], [2.0])]
    assert list(resolve_pools(bare)) == ["pool0", "pool1"]


def test_equal_names_are_refused(pool):
    with pytest.raises(ValueError, match="two pools are called 'toy'"):
        resolve_pools([pool, pool])


def test_pool_without_a_running_config_is_refused():
    failed = Pool([{"B": 1}], [float("inf")], name="dead")
    with pytest.raises(ValueError, match="no config of the pool 'dead' ran"):
        resolve_pools(failed)


def test_no_pool_is_refused():
    with pytest.raises(ValueError, match="no pool is given"):
        resolve_pools([])


def test_unknown_name_is_refused():
    with pytest.raises(ValueError, match="no pool named 'gemvv'"):
        resolve_pools("gemvv")


def test_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        resolve_pools(tmp_path / "missing.csv")


def test_other_types_are_refused():
    with pytest.raises(TypeError, match="got int"):
        resolve_pools([3])
