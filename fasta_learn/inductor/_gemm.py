"""Search among the kernels that Inductor chooses between with ``max_autotune``."""

from typing import Any

from fasta_learn._compat import import_extra
from fasta_learn.inductor._gemm_pool import make_finalize
from fasta_learn.inductor._gemm_selector import make_selector
from fasta_learn.inductor._settings import Settings

_FINALIZE = "_finalize_template_configs"
_SELECTOR = "_ALGORITHM_SELECTOR_CACHE"


def install(settings: Settings, patches: Any) -> None:
    """Let Inductor choose by a search.

    Parameters
    ----------
    settings : Settings
        How to search.
    patches : Patches
        What undoes it.
    """
    select = import_extra("torch._inductor.select_algorithm", "torch")
    handler = import_extra("torch._inductor.choices", "torch").InductorChoices
    patches.set(handler, _FINALIZE, make_finalize(getattr(handler, _FINALIZE)))
    before = getattr(select, _SELECTOR)
    patches.set(select, _SELECTOR, make_selector(settings, before))
