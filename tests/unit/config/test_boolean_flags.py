"""Public case j2: `--flag False` must never turn a flag on, and `None` must never become a path."""

import pytest

from openrlhf.config.errors import ConfigError
from openrlhf.config.parse import PPOCommand, parse_ppo
from openrlhf.config.schema import flags, values

BOOLEANS = [path for path, flag in flags(PPOCommand).items() if flag.kind == "bool" and path != "dry_run"]


def parsed_values(argv):
    """One command with every boolean flag in the same form: tyro runs once for all of them."""
    return values(parse_ppo(argv).config)


def negated(path, separator):
    parent, dot, leaf = path.rpartition(".")
    return f"--{parent}{dot}no{separator}{leaf}"


def test_there_are_booleans_with_both_defaults():
    assert {flags(PPOCommand)[path].default for path in BOOLEANS} == {True, False}


@pytest.mark.parametrize("word", ["False", "false", "FALSE", "0", "no", "off"])
@pytest.mark.parametrize("form", ["--{} {}", "--{}={}"])
def test_a_false_word_gives_false(word, form):
    read = parsed_values([part for path in BOOLEANS for part in form.format(path, word).split()])
    assert {path: read[path] for path in BOOLEANS} == dict.fromkeys(BOOLEANS, False)


@pytest.mark.parametrize("form", ["--{}", "--{} True", "--{}=1", "--{} yes"])
def test_bare_and_true_words_give_true(form):
    read = parsed_values([part for path in BOOLEANS for part in form.format(path).split()])
    assert {path: read[path] for path in BOOLEANS} == dict.fromkeys(BOOLEANS, True)


@pytest.mark.parametrize("separator", ["-", "_"])
def test_the_no_form_gives_false(separator):
    read = parsed_values([negated(path, separator) for path in BOOLEANS])
    assert {path: read[path] for path in BOOLEANS} == dict.fromkeys(BOOLEANS, False)


@pytest.mark.parametrize("value", ["", "maybe", "None", "2"])
def test_anything_else_is_refused_for_each_of_them(value):
    with pytest.raises(ConfigError) as caught:
        parse_ppo([word for path in BOOLEANS for word in (f"--{path}", value)])
    assert len(caught.value.problems) == len(BOOLEANS)


def test_the_documented_muon_negation():
    assert parse_ppo(["--actor.muon.no_nesterov"]).config.actor.muon.nesterov is False
    assert parse_ppo(["--no_muon_nesterov"]).config.actor.muon.nesterov is False


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
