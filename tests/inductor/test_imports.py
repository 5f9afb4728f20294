import importlib
import importlib.util
import inspect
import pkgutil
import sys
import threading
from types import ModuleType

import pytest

from fasta_learn.inductor._imports import when_imported


@pytest.fixture
def late(tmp_path, monkeypatch):
    """Make a module that is not imported yet."""
    name = "fasta_learn_late_module"
    (tmp_path / f"{name}.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    yield name
    sys.modules.pop(name, None)


def test_imported_module_is_not_waited_for():
    before, called = list(sys.meta_path), []
    when_imported("json", lambda: called.append(1))
    assert called == [1]
    assert sys.meta_path == before


def test_function_is_called_once_after_the_import(late):
    before, seen = list(sys.meta_path), []
    when_imported(late, lambda: seen.append(sys.modules[late].value))
    assert seen == []
    importlib.import_module(late)
    importlib.reload(sys.modules[late])
    assert seen == [1]
    assert sys.meta_path == before


def test_several_functions_wait_for_a_module(late):
    called = []
    when_imported(late, lambda: called.append("first"))
    when_imported(late, lambda: called.append("second"))
    importlib.import_module(late)
    assert sorted(called) == ["first", "second"]


def test_waiting_can_be_given_up(late):
    before, called = list(sys.meta_path), []
    give_up = when_imported(late, lambda: called.append(1))
    give_up()
    give_up()
    importlib.import_module(late)
    assert called == []
    assert sys.meta_path == before


def test_module_does_not_show_that_it_was_waited_for(late):
    when_imported(late, lambda: None)
    module = importlib.import_module(late)
    plain = importlib.machinery.SourceFileLoader
    assert type(module.__loader__) is type(module.__spec__.loader) is plain
    assert inspect.getsource(module) == "value = 1\n"


def test_looking_a_module_up_does_not_count_as_import(late):
    called = []
    when_imported(late, lambda: called.append(1))
    spec = importlib.util.find_spec(late)
    assert spec.loader.get_source(late) == "value = 1\n"
    assert pkgutil.get_data(late, f"{late}.py") == b"value = 1\n"
    assert called == [1]  # get_data imports the module


def test_module_that_is_missing_stays_missing(late):
    when_imported(f"{late}_missing", lambda: None)
    with pytest.raises(ModuleNotFoundError, match=f"{late}_missing"):
        importlib.import_module(f"{late}_missing")


def test_failing_import_raises_its_own_error_and_may_be_repeated(late, tmp_path):
    called = []
    (tmp_path / f"{late}.py").write_text("1 / 0\n")
    when_imported(late, lambda: called.append(1))
    with pytest.raises(ZeroDivisionError):
        importlib.import_module(late)
    assert called == []
    (tmp_path / f"{late}.py").write_text("value = 22\n")
    importlib.invalidate_caches()
    importlib.import_module(late)
    assert called == [1]


def test_module_that_another_thread_imports_is_waited_for(late, tmp_path):
    started, go_on = tmp_path / "started", tmp_path / "go_on"
    (tmp_path / f"{late}.py").write_text(
        "import pathlib, time\n"
        f"pathlib.Path({str(started)!r}).touch()\n"
        f"while not pathlib.Path({str(go_on)!r}).exists(): time.sleep(0.01)\n"
        "value = 3\n"
    )
    importer = threading.Thread(target=importlib.import_module, args=(late,))
    importer.start()
    while not started.exists():
        pass
    threading.Timer(0.1, go_on.touch).start()
    seen = []
    when_imported(late, lambda: seen.append(sys.modules[late].value))
    importer.join()
    assert seen == [3]


@pytest.fixture
def partial_import(late, tmp_path, monkeypatch):
    """Let the module wait for itself while it is imported."""
    log = []
    module = ModuleType("fasta_learn_log")
    module.log, module.wait = log, lambda name: when_imported(name, note)

    def note():
        log.append(sys.modules[late].value)

    monkeypatch.setitem(sys.modules, module.__name__, module)
    code = "import fasta_learn_log\ngive_up = fasta_learn_log.wait(__name__)\n"
    (tmp_path / f"{late}.py").write_text(code)

    def add(more):
        with open(tmp_path / f"{late}.py", "a") as file:
            file.write(more)
        return log

    return add


def test_import_under_way_in_this_thread_is_waited_for(late, partial_import):
    log = partial_import("fasta_learn_log.log.append('goes on')\nvalue = 5\n")
    module = importlib.import_module(late)
    assert log == ["goes on", 5]
    assert type(module.__spec__) is importlib.machinery.ModuleSpec
    assert not module.__spec__._initializing


def test_import_under_way_can_be_waited_for_twice(late, partial_import):
    log = partial_import("fasta_learn_log.wait(__name__)\nvalue = 5\n")
    importlib.import_module(late)
    assert log == [5, 5]


def test_waiting_for_an_import_under_way_can_be_given_up(late, partial_import):
    log = partial_import("give_up()\ngive_up()\nvalue = 5\n")
    importlib.import_module(late)
    assert log == []


def test_import_under_way_that_fails_calls_nothing(late, partial_import):
    log = partial_import("value = 5\n1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        importlib.import_module(late)
    assert log == []
