"""Stands in for Inductor's selector: measures few of many choices."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

from fasta_learn._compat import import_extra
from fasta_learn.inductor._gemm_compile import Compiles
from fasta_learn.inductor._gemm_pool import is_here, may_hold_back
from fasta_learn.inductor._gemm_report import give_up
from fasta_learn.inductor._gemm_tuning import Call, Tuning
from fasta_learn.inductor._settings import Settings


class SearchingSelector:
    """Mixed into Inductor's ``AlgorithmSelectorCache``; see `make_selector`.

    Only which choices are measured, and how, is its own. To look up, keep, log and
    report the times is left to Inductor: it is handed the choices that were measured,
    and asks for their times by `autotune`.
    """

    _settings: Settings
    _told: "_Told"

    def make_precompile_fn(self, choices: Any, *args: Any, **kwargs: Any) -> Any:
        """Begin to compile Inductor's choices, as far as that needs no wait."""

        def stock() -> Any:
            return super(SearchingSelector, self).make_precompile_fn(  # type: ignore[misc]
                choices, *args, **kwargs
            )

        if not is_here():
            return stock()
        ahead = _Ahead(stock)
        try:
            if may_hold_back() and not _is_known(self, choices, args, kwargs):
                ahead.start(choices, self._settings)
        except Exception as error:
            give_up(error)
        return ahead

    def do_autotuning(
        self,
        name: str,
        input_nodes: Any,
        layout: Any,
        input_gen_fns: Any,
        inputs_key: str,
        choices: Any,
        precompile_fn: Any,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Give a time in ms to each choice that was measured."""
        call = (name, input_nodes, layout, input_gen_fns, inputs_key)
        answers: dict[Any, float] | None = None
        if _is_ours(choices, args, kwargs):
            try:
                about = Call(*call, tuple(choices), kwargs.get("hint_override"))
                ahead = getattr(precompile_fn, "compiles", None)
                tuning = Tuning(self, self._settings, about, ahead)
                answers = tuning.run()
            except Exception as error:
                give_up(error)
        stock = super().do_autotuning  # type: ignore[misc]
        if answers is None:
            return stock(
                *call, choices, _stock_precompile(precompile_fn), *args, **kwargs
            )
        self._told.answers = answers
        try:
            timings = stock(*call, list(answers), _nothing_to_compile, *args, **kwargs)
        finally:
            self._told.answers = {}
        tuning.keep()
        return timings

    def autotune(
        self,
        name: str,
        input_nodes: Any,
        layout: Any,
        input_gen_fns: Any,
        choices: Any,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Answer by what the search has measured, where it has."""
        answers = self._told.answers
        if answers and all(choice in answers for choice in choices):
            return {choice: answers[choice] for choice in choices}
        return super().autotune(  # type: ignore[misc]
            name, input_nodes, layout, input_gen_fns, choices, *args, **kwargs
        )


def make_selector(settings: Settings, before: Any = None) -> Any:
    """Return a selector that searches.

    Parameters
    ----------
    settings : Settings
        How to search.
    before : AlgorithmSelectorCache or None, default=None
        The selector that it stands in for; all that is registered there counts, and
        what is registered here stays there.

    Returns
    -------
    AlgorithmSelectorCache
        The selector.
    """
    select = import_extra("torch._inductor.select_algorithm", "torch")
    bases = (SearchingSelector, select.AlgorithmSelectorCache)
    kind: Any = type("SearchingSelectorCache", bases, {})
    if before is None:
        selector = kind()
    else:
        selector = kind.__new__(kind)
        selector.__dict__ = before.__dict__
    kind._settings, kind._told = settings, _Told()
    return selector


class _Ahead:
    """What Inductor calls to wait for its compiles; here they may have only begun."""

    def __init__(self, stock: Callable[[], Any]) -> None:
        self.stock = stock
        self.compiles: Compiles | None = None

    def start(self, choices: Sequence[Any], settings: Settings) -> None:
        """Begin to compile choices, if Inductor's processes are there by now."""
        select = import_extra("torch._inductor.select_algorithm", "torch")
        templates = [c for c in choices if isinstance(c, select.TritonTemplateCaller)]
        if not templates:
            return
        compiles = Compiles(settings.n_jobs, may_wait=False)
        if compiles.has_processes:
            self.compiles = compiles
            for choice in templates:
                compiles.start(choice)

    def __call__(self) -> Any:
        return self.stock()()


class _Told(threading.local):
    """What a search has measured, for as long as Inductor asks about it.

    Graphs may be compiled in several threads.
    """

    def __init__(self) -> None:
        self.answers: dict[Any, float] = {}


def _is_ours(choices: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether to search, or to leave all to Inductor."""
    is_special = kwargs.get("is_collective") or kwargs.get("best_config_future")
    return bool(choices and not args and not is_special and is_here())


def _is_known(
    selector: Any, choices: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> bool:
    """Whether Inductor's cache has a time for each of its choices."""
    names = ("name", "inputs_key")
    name, inputs_key = (
        args[i] if i < len(args) else kwargs[names[i]] for i in range(2)
    )
    return len(selector.lookup(choices, name, inputs_key, None)) == len(choices)


def _stock_precompile(precompile_fn: Any) -> Any:
    if isinstance(precompile_fn, _Ahead):
        return precompile_fn.stock()
    return precompile_fn


def _nothing_to_compile() -> dict[Any, float]:
    return {}
