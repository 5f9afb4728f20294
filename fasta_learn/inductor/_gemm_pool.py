"""The choices of one product: Inductor's own, and those it would not look at."""

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

from fasta_learn._compat import import_extra
from fasta_learn.autotuner._store import short_hash
from fasta_learn.inductor._gemm_search import Contender

_ANNOTATION = "fasta_learn"
_SPACE = "max_autotune_gemm_search_space"
# Inductor's own estimate of shared memory; it left no failures in 3000 compiles.
_WHOLE_SPACE = {
    _SPACE: "EXHAUSTIVE",
    "max_autotune_prune_choices_based_on_shared_mem": True,
}
# What follows from the tile and the shape would make shapes incomparable.
_DERIVED = ("EVEN_K",)
# Configs for a model of Inductor that chooses on its own.
_NOT_SEARCHED = ("mm-ah",)


@dataclass(eq=False)
class HeldBack:
    """Templates whose other configs are rendered only when a search asks for them.

    Attributes
    ----------
    generators : dict of str to iterator
        What is left of the config space, by the name of the template: objects that
        render a choice when their ``choice`` is read.
    """

    generators: dict[str, Iterator[Any]]
    _cells: dict[str, list[Any]] = field(default_factory=dict)

    def cells(self, name: str) -> list[Any]:
        """Return the whole config space of a template.

        Parameters
        ----------
        name : str
            Name of the template.

        Returns
        -------
        list
            Nothing of it is rendered.
        """
        if name not in self._cells:
            config = import_extra("torch._inductor.config", "torch")
            with config.patch(_WHOLE_SPACE):
                self._cells[name] = list(self.generators[name])
        return self._cells[name]


def make_finalize(
    stock: Callable[..., list[Any]],
) -> Callable[..., list[Any]]:
    """Return what takes the place of ``InductorChoices._finalize_template_configs``.

    Parameters
    ----------
    stock : callable
        The method itself.

    Returns
    -------
    callable
        It answers what Inductor would take without an exhaustive search. To each of
        these is noted how to get the others.
    """

    def finalize(
        handler: Any,
        template_choices: Any,
        kernel_inputs: Any,
        templates: Any,
        op_name: str,
        kwarg_overrides: Any = None,
    ) -> list[Any]:
        arguments = (template_choices, kernel_inputs, templates, op_name)
        if op_name in _NOT_SEARCHED or not may_hold_back():
            return stock(handler, *arguments, kwarg_overrides)
        config = import_extra("torch._inductor.config", "torch")
        with config.patch({_SPACE: "DEFAULT"}):
            # Whatever the space, the generators read it only now.
            chosen = list(stock(handler, *arguments, kwarg_overrides))
        overrides = kwarg_overrides or {}
        wanted = {c.template.uid for c in chosen if _is_triton(c.template)}
        held = HeldBack(
            {
                template.uid: handler.get_ktc(
                    kernel_inputs, template, op_name, overrides.get(template.uid, {})
                )
                for template in templates
                if template.uid in wanted
            }
        )
        for cell in chosen:
            if cell.template.uid in wanted:
                cell.annotations[_ANNOTATION] = held
        return chosen

    return finalize


def may_hold_back() -> bool:
    """Tell whether choices may be made later than Inductor would make them.

    Returns
    -------
    bool
        Whether Inductor is to choose by time, and here.
    """
    config = import_extra("torch._inductor.config", "torch")
    is_on = config.max_autotune or config.max_autotune_gemm
    return bool(is_on and is_here())


def is_here() -> bool:
    """Tell whether Inductor chooses in this process, and by times.

    Returns
    -------
    bool
        False where it sends choices elsewhere, or does not choose by time.
    """
    config = import_extra("torch._inductor.config", "torch")
    return not (
        config.distributed_max_autotune_gemm
        or config.pipeline_max_autotune_gemm
        or config.remote_gemm_autotune_cache
        # It has a clock of its own, for those who want to see bandwidths.
        or config.profile_bandwidth_with_do_bench_using_profiling
        or config.deterministic
    )


def collect(
    choices: Sequence[Any], hint_override: int | None = None
) -> list[Contender]:
    """Return the pool behind Inductor's choices.

    Parameters
    ----------
    choices : list of ChoiceCaller
        Inductor's choices.
    hint_override : int or None, default=None
        Which hint of a dynamic shape it is for.

    Returns
    -------
    list of Contender
        Inductor's choices first, then those that were held back. Nothing is rendered.
    """
    pool = list(given_contenders(choices))
    known = {contender.key for contender in pool}
    for sibling in _siblings(choices):
        for contender in _held_contenders(sibling, hint_override):
            if contender.key not in known:
                known.add(contender.key)
                pool.append(contender)
    return _with_varying(pool)


def given_contenders(choices: Iterable[Any]) -> Iterator[Contender]:
    """Give Inductor's choices as contenders; of equal ones the first.

    Parameters
    ----------
    choices : iterable of ChoiceCaller
        Inductor's choices.

    Yields
    ------
    Contender
        They are made already.
    """
    known = set()
    for choice in choices:
        cell = choice.annotations.get("ktc")
        config = _config_of(choice, cell)
        if cell is not None and _is_triton(cell.template):
            key = name = _cell_key(cell)
        else:
            key = f"choice:{short_hash(choice.hash_key())}"
            name = f"{choice.name} {choice.description}".strip()
        if key not in known:
            known.add(key)
            yield Contender(key=key, make=_constant(choice), config=config, name=name)


def render(contender: Contender) -> Any:
    """Make the choice of a contender, if need be.

    Parameters
    ----------
    contender : Contender
        The contender.

    Returns
    -------
    ChoiceCaller or None
        None if its template can't be rendered for it.
    """
    graph = import_extra("torch._inductor.virtualized", "torch").V.graph
    # Templates are rendered as before there was a schedule, whenever it is done.
    with (
        patch.object(graph, "scheduler", None)
        if hasattr(graph, "scheduler")
        else contextlib.nullcontext()
    ):
        return contender.make()


def _siblings(choices: Sequence[Any]) -> list[Any]:
    """Of each template with more configs, the cell of a choice that was rendered."""
    cells: dict[str, Any] = {}
    for choice in choices:
        cell = choice.annotations.get("ktc")
        if cell is not None and _ANNOTATION in choice.annotations:
            cells.setdefault(cell.template.uid, cell)
    return list(cells.values())


def _held_contenders(sibling: Any, hint_override: int | None) -> Iterator[Contender]:
    held = sibling.annotations[_ANNOTATION]
    n_bytes = sibling.inputs.dtype().itemsize
    for cell in held.cells(sibling.template.uid):
        kwargs = cell.params.to_kwargs()
        if kwargs.get("hint_override") == hint_override and not (
            n_bytes == 2 and compiles_slowly(kwargs)
        ):
            yield Contender(
                key=_cell_key(cell),
                make=_renderer(cell, sibling),
                config=_scalars({"template": cell.template.uid, **kwargs}),
                is_stock=False,
            )


def compiles_slowly(config: Mapping[str, Any]) -> bool:
    """Tell whether a config of a 16-bit product is not worth its compile.

    Where K is not much above 1000, ptxas unrolls the whole loop, and with so short a
    step and so many accumulators a thread it takes three to ten seconds where others
    take half a second; a few of them are enough to keep all compilers busy. In none of
    the recorded pools of 16-bit products is one of them the best; the nearest is 3 %
    slower.

    Parameters
    ----------
    config : mapping
        Parameters of a template.

    Returns
    -------
    bool
        False for a template without these parameters.
    """
    try:
        tile = config["BLOCK_M"] * config["BLOCK_N"]
        n_accumulators = tile // (32 * config["num_warps"])
        is_pipelined = config["num_stages"] >= 2
        is_thin: bool = config["BLOCK_K"] <= 16
        return n_accumulators >= 64 and is_pipelined and is_thin
    except KeyError:
        return False


def _renderer(cell: Any, sibling: Any) -> Callable[[], Any]:
    def make() -> Any:
        if not hasattr(cell, "_choice"):
            # By now layout and inputs may have been settled for those rendered before.
            cell.layout, cell.inputs = sibling.layout, sibling.inputs
        return cell.choice

    return make


def _constant(choice: Any) -> Callable[[], Any]:
    return lambda: choice


def _is_triton(template: Any) -> bool:
    select = import_extra("torch._inductor.select_algorithm", "torch")
    return isinstance(template, select.TritonTemplate)


def _cell_key(cell: Any) -> str:
    kwargs = sorted(cell.params.to_kwargs().items())
    text = ", ".join(f"{name}={value!r}" for name, value in kwargs)
    return f"{cell.template.uid}({text})"


def _config_of(choice: Any, cell: Any) -> dict[str, Any] | None:
    """Return what tells a choice from others of its kind."""
    select = import_extra("torch._inductor.select_algorithm", "torch")
    if cell is not None and _is_triton(cell.template):
        return _scalars({"template": cell.template.uid, **cell.params.to_kwargs()})
    if getattr(choice, "decomposition", None) is not None:
        patches = getattr(choice, "config_patches", None) or {}
        name = getattr(choice.decomposition, "__qualname__", "")
        return _scalars(
            {"decomposition": name, **choice.decomposition_kwargs, **patches}
        )
    if isinstance(choice, select.TritonTemplateCaller):
        name = choice.name.rsplit("_", 1)[0]
        return _scalars({"template": name, **choice.info_dict()})
    return None


def _scalars(values: dict[str, Any]) -> dict[str, Any]:
    plain = (bool, int, float, str)
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, plain) and name not in _DERIVED
    }


def _with_varying(pool: list[Contender]) -> list[Contender]:
    """Leave to the configs what differs between them, and only what all have."""
    configs = [c.config for c in pool if c.config]
    if not configs:
        return pool
    shared = set.intersection(*(set(config) for config in configs))
    names = [
        name
        for name in configs[0]
        if name in shared and len({json.dumps(c[name]) for c in configs}) > 1
    ]
    trimmed = []
    for contender in pool:
        config = contender.config
        if config is not None:
            config = {name: config[name] for name in names} or None
        trimmed.append(replace(contender, config=config))
    return _without_twins(trimmed)


def _without_twins(pool: list[Contender]) -> list[Contender]:
    """Take the config from what a search could not tell from another."""
    known: set[str] = set()
    kept = []
    for contender in pool:
        text = json.dumps(contender.config, sort_keys=True)
        if contender.config is not None and text in known:
            if not contender.is_stock:
                continue
            contender = replace(contender, config=None)
        known.add(text)
        kept.append(contender)
    return kept
