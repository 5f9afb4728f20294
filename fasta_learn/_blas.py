"""One BLAS thread around many small factorisations."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController


class _SharedLimit:
    """A limit that overlapping users share: first in sets it, last out lifts it.

    The number of BLAS threads belongs to the process. Two threads that each
    saved and restored it by themselves could leave it at one for good.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._n_users = 0
        self._controller: ThreadpoolController | None = None
        self._limiter: Any = None

    def acquire(self) -> None:
        with self._lock:
            if self._controller is None:
                # Finding the loaded libraries takes milliseconds, so it is kept.
                self._controller = ThreadpoolController()
            if self._n_users == 0:
                self._limiter = self._controller.limit(limits=1, user_api="blas")
            self._n_users += 1

    def release(self) -> None:
        with self._lock:
            self._n_users -= 1
            if self._n_users == 0:
                self._limiter.restore_original_limits()


_LIMIT = _SharedLimit()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run the body with one BLAS thread; threads and nested uses may overlap."""
    _LIMIT.acquire()
    try:
        yield
    finally:
        _LIMIT.release()
