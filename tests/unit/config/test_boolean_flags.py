"""Public case j2: `--flag False` must never turn a flag on, and `None` must never become a path."""

import pytest

from openrlhf.config.errors import ConfigError
from openrlhf.config.parse import PPOCommand, parse_ppo
from openrlhf.config.schema import flags, values
from openrlhf.config.tokens import Given

BOOLEANS = [path for path, flag in flags(PPOCommand).items() if flag.kind == "bool" and path != "dry_run"]


def parsed_values(argv):
    """One command with every boolean flag in the same form: tyro runs once for all of them."""
    return values(parse_ppo(argv).config)


def negated(path, separator):
    parent, dot, leaf = path.rpartition(".")
    return f"--{parent}{dot}no{separator}{leaf}"


def test_there_are_booleans_with_both_defaults():
    assert {flags(PPOCommand)[path].default for path in BOOLEANS} == {True, False}


@pytest.mark.parametrize("form", ["--{} False", "--{}=false", "--{} 0"])
def test_a_false_word_gives_false(form):
    read = parsed_values([part for path in BOOLEANS for part in form.format(path).split()])
    assert {path: read[path] for path in BOOLEANS} == dict.fromkeys(BOOLEANS, False)


@pytest.mark.parametrize("form", ["--{}", "--{} True"])
def test_bare_and_true_words_give_true(form):
    read = parsed_values([part for path in BOOLEANS for part in form.format(path).split()])
    assert {path: read[path] for path in BOOLEANS} == dict.fromkeys(BOOLEANS, True)


@pytest.mark.parametrize("separator", ["-", "_"])
def test_the_no_form_gives_false(separator):
    read = parsed_values([negated(path, separator) for path in BOOLEANS])
    assert {path: read[path] for path in BOOLEANS} == dict.fromkeys(BOOLEANS, False)


@pytest.mark.parametrize("value", ["", "maybe"])
def test_anything_else_is_refused_for_each_of_them(value):
    with pytest.raises(ConfigError) as caught:
        parse_ppo([word for path in BOOLEANS for word in (f"--{path}", value)])
    assert len(caught.value.problems) == len(BOOLEANS)


@pytest.mark.parametrize(
    ("words", "truth"),
    [
        ((), True),
        (("True",), True),
        (("1",), True),
        (("yes",), True),
        (("FALSE",), False),
        (("0",), False),
        (("no",), False),
        (("off",), False),
        (("",), None),
        (("2",), None),
        (("None",), None),
        (("True", "False"), None),
    ],
)
def test_truth_words(words, truth):
    assert Given("x", words, "--x").truth() is truth


def test_the_documented_muon_negation():
    argv = ["--actor.muon.no_nesterov", "--critic.muon.no_nesterov"]
    config = parse_ppo(argv).config
    assert (config.actor.muon.nesterov, config.critic.muon.nesterov) == (False, False)


def test_a_negation_takes_no_value():
    with pytest.raises(ConfigError, match="takes no value"):
        parse_ppo(["--train.no-colocate_all", "False"])


def test_none_is_none_for_every_optional_flag():
    optional = [path for path, flag in flags().items() if flag.optional]
    read = parsed_values([word for path in optional for word in (f"--{path}", "None")])
    assert {path: read[path] for path in optional} == dict.fromkeys(optional)


def test_none_is_refused_where_it_means_nothing():
    required = [path for path, flag in flags().items() if not flag.optional and flag.arity == 1]
    with pytest.raises(ConfigError) as caught:
        parse_ppo([f"--{path}=None" for path in required])
    assert len(caught.value.problems) == len(required)
