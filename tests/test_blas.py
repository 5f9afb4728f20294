"""The shared limit of one BLAS thread."""

from threading import Barrier, Thread

import numpy as np
import pytest
import scipy.linalg  # noqa: F401  (loads the second BLAS before it is counted)
from threadpoolctl import threadpool_info, threadpool_limits

from fasta_learn._blas import one_blas_thread
from fasta_learn.model_selection import loo_predictions


def blas_threads():
    pools = threadpool_info()
    return {pool["num_threads"] for pool in pools if pool["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def _two_threads():
    with threadpool_limits(limits=2, user_api="blas"):
        if blas_threads() != {2}:
            pytest.skip("BLAS can't run two threads here")
        yield


def test_limit_holds_inside_and_ends_after():
    with one_blas_thread():
        assert blas_threads() == {1}
    assert blas_threads() == {2}


def test_nested_limits_end_with_the_outer_one():
    with one_blas_thread():
        with one_blas_thread():
            pass
        assert blas_threads() == {1}
    assert blas_threads() == {2}


def test_limit_ends_after_an_error():
    with pytest.raises(RuntimeError), one_blas_thread():
        raise RuntimeError
    assert blas_threads() == {2}


def test_overlapping_threads_restore_what_was_before():
    both_inside, first_outside = Barrier(2), Barrier(2)

    def first():
        with one_blas_thread():
            both_inside.wait(10)
        first_outside.wait(10)

    def second():
        with one_blas_thread():
            both_inside.wait(10)
            first_outside.wait(10)

    threads = [Thread(target=first), Thread(target=second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert blas_threads() == {2}


def test_loo_predictions_leave_the_number_of_threads():
    loo_predictions(np.eye(3), np.ones(3), 0.1)
    assert blas_threads() == {2}
