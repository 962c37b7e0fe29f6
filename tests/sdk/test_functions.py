"""A function travels as its source and a call."""

import json
import subprocess
import sys

import pytest

from allaboard.sdk.blocking import wish_of
from allaboard.sdk.functions import NotEmbeddable, script_of


def fit(steps, lr=0.1):
    print(f"{steps} steps, lr {lr}")


def decorated(function):
    return function


@decorated
def wrapped(name):
    print("hello", name)


def made_inside(secret):
    def inner():
        print(secret)

    return inner


def said(script):
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout


def test_the_script_runs_alone_with_its_arguments():
    assert said(script_of(fit, {"steps": 3})) == "3 steps, lr 0.1\n"
    assert said(script_of(wrapped, {"name": 'quo"te'})) == 'hello quo"te\n'


REFUSED = {
    "a lambda": (lambda: None, {}, "has no name to call it by"),
    "a function of a function": (made_inside("x"), {}, 'uses "secret" of the function around it'),
    "an argument that is no JSON": (fit, {"steps": object()}, "arguments travel as JSON"),
    "one without a source": (print, {}, "its source cannot be found"),
}


@pytest.mark.parametrize(("function", "arguments", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_travel_is_refused(function, arguments, words):
    with pytest.raises(NotEmbeddable, match=words):
        script_of(function, arguments)


def test_a_wish_from_a_function_and_from_a_script(tmp_path):
    wish = wish_of(fit, "team", {"nodes": 2, "gpus": 1, "args": {"steps": 3}, "queue": "q"})
    assert (wish.nodes, wish.namespace, wish.queue, wish.resources) == (2, "team", "q", {"nvidia.com/gpu": "1"})
    assert wish.name.startswith("fit-") and json.dumps({"steps": 3}) in wish.script and wish.args == ()
    path = tmp_path / "My Script.py"
    path.write_text("print(1)")
    wish = wish_of(str(path), "d", {"args": ("--epochs", "3"), "name": "mine"})
    assert (wish.name, wish.file, wish.args) == ("mine", "my-script.py", ("--epochs", "3"))
