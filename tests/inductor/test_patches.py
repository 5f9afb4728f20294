import types

import pytest

from fasta_learn.inductor._patches import Patches


class Base:
    """Something to patch."""

    inherited = "inherited"

    @staticmethod
    def static():
        return "static"


class Derived(Base):
    """Has one attribute of its own."""

    own = "own"


def test_attribute_comes_back_as_the_identical_object():
    module = types.ModuleType("module")
    module.value = before = object()
    patches = Patches()
    patches.set(module, "value", 1)
    assert module.value == 1
    patches.undo()
    assert module.value is before


def test_static_method_comes_back_as_one():
    before = vars(Base)["static"]
    patches = Patches()
    patches.set(Base, "static", lambda: "patched")
    patches.undo()
    assert vars(Base)["static"] is before
    assert Base().static() == "static"


def test_inherited_attribute_is_not_copied_into_the_class():
    patches = Patches()
    patches.set(Derived, "inherited", "patched")
    assert Derived.inherited == "patched"
    patches.undo()
    assert set(vars(Derived)) & {"inherited", "own"} == {"own"}
    assert Derived.inherited == "inherited"


def test_attribute_of_an_instance_does_not_stay():
    instance, patches = Derived(), Patches()
    patches.set(instance, "own", "patched")
    patches.undo()
    assert vars(instance) == {}


def test_missing_attribute_is_not_made():
    patches = Patches()
    with pytest.raises(AttributeError, match="missing"):
        patches.set(Base, "missing", 1)
    assert not hasattr(Base, "missing")
    assert len(patches) == 0


def test_last_patch_is_undone_first():
    module, patches = types.ModuleType("module"), Patches()
    module.value = 0
    patches.set(module, "value", 1)
    patches.set(module, "value", 2)
    patches.undo(n_kept=1)
    assert module.value == 1
    patches.undo()
    assert module.value == 0


def test_functions_are_called_once_in_reverse():
    called, patches = [], Patches()
    patches.at_end(lambda: called.append("first"))
    patches.at_end(lambda: called.append("second"))
    patches.undo()
    patches.undo()
    assert called == ["second", "first"]


def test_nothing_is_patched_after_the_end():
    module, patches = types.ModuleType("module"), Patches()
    module.value = 0
    patches.undo()
    with pytest.raises(RuntimeError, match="undone"):
        patches.set(module, "value", 1)
    assert module.value == 0
