"""What all public names, estimators and docstrings have in common."""

import ast
import doctest
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import textwrap
from dataclasses import fields, is_dataclass
from functools import cached_property
from pathlib import Path

import pytest
from numpydoc.docscrape import FunctionDoc, get_doc_object
from numpydoc.validate import validate
from sklearn.base import BaseEstimator
from sklearn.linear_model import Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

import fasta_learn
from fasta_learn import (
    ActiveConfigSearch,
    ConfigPruner,
    ConfigVectorizer,
    ModelSelector,
    dynamic_filter_search,
)
from fasta_learn.bases import QuadraticBasis
from fasta_learn.gaussian_process import AnovaGaussianProcess

TESTS = Path(__file__).parent


def public_modules():
    yield fasta_learn
    for info in pkgutil.walk_packages(fasta_learn.__path__, "fasta_learn."):
        if not any(part.startswith("_") for part in info.name.split(".")):
            yield importlib.import_module(info.name)


def public_objects():
    """Dotted names of classes and functions in `__all__`, and what they are."""
    found = {}
    for module in public_modules():
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                found.setdefault(thing, f"{module.__name__}.{name}")
    return {name: thing for thing, name in found.items()}


def public_members(thing):
    """Methods and properties of a class, those of our private bases included."""
    found = {}
    for base in reversed(thing.__mro__):
        if base.__module__.partition(".")[0] == "fasta_learn":
            found |= vars(base)
    kinds = (property, cached_property, classmethod, staticmethod)
    return {
        name: value
        for name, value in found.items()
        if not name.startswith("_")
        and (inspect.isfunction(value) or isinstance(value, kinds))
    }


def public_callables():
    """The same, with the public methods and properties of the classes."""
    found = {}
    for name, thing in public_objects().items():
        found[name] = thing
        if inspect.isclass(thing):
            members = public_members(thing)
            found |= {f"{name}.{member}": value for member, value in members.items()}
    return found


OBJECTS, CALLABLES = public_objects(), public_callables()
CHECKS = parametrize_with_checks.__name__
ESTIMATORS = {
    name: thing
    for name, thing in OBJECTS.items()
    if inspect.isclass(thing)
    and issubclass(thing, BaseEstimator)
    and not inspect.isabstract(thing)
}


@parametrize_with_checks(
    [
        ActiveConfigSearch(),
        ActiveConfigSearch(ModelSelector(), batch_size=3),
        ActiveConfigSearch(Ridge(), budget=0.9),
        dynamic_filter_search("production"),
        dynamic_filter_search("reference"),
        AnovaGaussianProcess(),
    ],
    expected_failed_checks=lambda estimator: {},
)
def test_estimators_pass_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def checked_names(path):
    """Give the names in what a file of tests hands to the checks of scikit-learn."""
    module = ast.parse(path.read_text())
    lists = {
        node.targets[0].id: node.value
        for node in module.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    names = set()
    for call in ast.walk(module):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == CHECKS:
            found = {n.id for n in ast.walk(call) if isinstance(n, ast.Name)}
            listed = [lists[name] for name in found & lists.keys()]
            names |= found | {
                n.id for each in listed for n in ast.walk(each) if hasattr(n, "id")
            }
    return names


@pytest.fixture(scope="module")
def checked():
    return set().union(*map(checked_names, TESTS.rglob("test_*.py")))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_is_checked_somewhere(name, checked):
    assert name.rpartition(".")[2] in checked


def test_all_names_can_be_imported():
    for module in public_modules():
        names = getattr(module, "__all__", [])
        assert len(set(names)) == len(names)
        for name in names:
            assert getattr(module, name) is not None


def test_names_of_the_package_come_from_its_folders():
    for name in fasta_learn.__all__:
        thing = getattr(fasta_learn, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            folder = importlib.import_module(thing.__module__.rpartition("._")[0])
            assert name in folder.__all__


# Long summaries, examples and cross references are not asked of every method.
IGNORED_CHECKS = {"ES01", "SA01", "EX01"}


@pytest.mark.parametrize("name", CALLABLES)
def test_docstrings_are_complete(name):
    errors = {
        code: message
        for code, message in validate(name)["errors"]
        if code not in IGNORED_CHECKS
    }
    thing = CALLABLES[name]
    if is_dataclass(thing):
        # Records that users only read tell of their fields as attributes.
        told = {attribute.name for attribute in get_doc_object(thing)["Attributes"]}
        if {field.name for field in fields(thing)} <= told:
            errors.pop("PR01", None)
    assert errors == {}


@pytest.mark.parametrize(
    "name", [name for name, thing in CALLABLES.items() if not inspect.isclass(thing)]
)
def test_errors_are_documented(name):
    thing = CALLABLES[name]
    thing = getattr(thing, "fget", getattr(thing, "__func__", thing))
    thing = inspect.unwrap(thing)
    tree = ast.parse(textwrap.dedent(inspect.getsource(thing)))
    raised = [
        node.exc.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Call)
        and isinstance(node.exc.func, ast.Name)
    ]
    documented = {entry.type for entry in FunctionDoc(thing)["Raises"]}
    assert set(raised) <= documented


@pytest.mark.parametrize(
    "module", list(public_modules()), ids=lambda module: module.__name__
)
def test_modules_say_what_they_are_for(module):
    summary, _, rest = module.__doc__.partition("\n")
    assert summary.endswith(".")
    assert not rest.splitlines() or rest.startswith("\n")


def is_made_by_users(thing):
    """Tell whether it is no exception, interface or record that a function returns."""
    if not inspect.isclass(thing) or thing in ESTIMATORS.values():
        return True
    is_record = is_dataclass(thing) and get_doc_object(thing)["Attributes"]
    comes_from_function = is_record or "; made by `" in thing.__doc__
    is_base = issubclass(thing, Exception) or inspect.isabstract(thing)
    return not (comes_from_function or is_base)


@pytest.mark.parametrize("name", [n for n, t in OBJECTS.items() if is_made_by_users(t)])
def test_there_is_an_example(name):
    assert ">>>" in OBJECTS[name].__doc__


def modules_with_examples():
    for info in pkgutil.walk_packages(fasta_learn.__path__, "fasta_learn."):
        if ">>>" in Path(info.module_finder.find_spec(info.name).origin).read_text():
            yield info.name


@pytest.mark.parametrize("name", list(modules_with_examples()))
def test_examples_do_what_they_say(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert doctest.testmod(importlib.import_module(name)).failed == 0


EXTRAS = ["torch", "torch_npu", "triton", "matplotlib", "rich", "dask", "pyarrow"]
IMPORTS = """
import sys, joblib, pandas, scipy, sklearn.callback
before = set(sys.modules)
import fasta_learn
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before}))
print(*sorted({name.partition(".")[0] for name in set(sys.modules)}))
"""


def test_importing_the_package_imports_no_extra():
    run = subprocess.run(
        [sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True
    )
    by_us, in_all = (set(line.split()) for line in run.stdout.splitlines())
    assert "fasta_learn" in by_us
    # pandas imports pyarrow and scikit-learn rich, where these are installed.
    assert not by_us & {*EXTRAS, "polars"}
    assert not in_all & {"torch", "torch_npu", "triton", "matplotlib", "dask", "polars"}


@pytest.mark.parametrize(
    ("estimator", "parameter"),
    [
        (estimator.__name__, parameter)
        for estimator in (ActiveConfigSearch, AnovaGaussianProcess, ModelSelector)
        for parameter in inspect.signature(estimator).parameters
    ],
)
def test_every_parameter_has_a_test(estimator, parameter):
    used = re.compile(
        rf"\b{parameter}=|\"{parameter}\"|\.{parameter}\b|{{{parameter}}}"
    )
    positional = parameter in {"estimator", "bases"}
    named = [
        path.name
        for path in TESTS.rglob("test_*.py")
        if path != Path(__file__)
        and estimator in (text := path.read_text())
        and (used.search(text) or (positional and re.search(rf"{estimator}\(\S", text)))
    ]
    assert named


@pytest.mark.parametrize("name", ESTIMATORS)
def test_parameters_stand_behind_a_star(name):
    parameters = list(inspect.signature(ESTIMATORS[name]).parameters.values())
    kinds = {parameter.kind for parameter in parameters[1:]}
    assert kinds <= {inspect.Parameter.KEYWORD_ONLY}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_parameter_is_constrained(name):
    estimator = ESTIMATORS[name]
    expected = set(inspect.signature(estimator).parameters)
    assert set(estimator._parameter_constraints) == expected


@pytest.mark.parametrize(
    "estimator",
    [
        ActiveConfigSearch(),
        dynamic_filter_search(),
        AnovaGaussianProcess(),
        ModelSelector(),
        ConfigVectorizer(),
        ConfigPruner(),
        QuadraticBasis(),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_estimators_show_themselves_in_notebooks(estimator):
    html = estimator._repr_html_()
    assert type(estimator).__name__ in html
    assert "<div" in html
