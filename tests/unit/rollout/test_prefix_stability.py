"""Templates in the manner of known model families, rendered by transformers' own engine."""

import logging

import pytest

from openrlhf.rollout.prefix_stability import rewritten_history, warn_about_rewritten_history
from tests.models import make_tiny_tokenizer

MESSAGE = "{{ '<|im_start|>' + m.role + '\n' + %s + '<|im_end|>\n' }}"
FOR, GENERATE = "{% for m in messages %}", "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
STABLE = FOR + MESSAGE % "m.content" + "{% endfor %}" + GENERATE
DROPS_REASONING = FOR + MESSAGE % "m.content.split('</think>')[-1].lstrip()" + "{% endfor %}" + GENERATE
KEEPS_OPEN_THINK = STABLE.replace("assistant\n' }}", "assistant\n<think>' }}")
TRIMS = FOR + MESSAGE % "(m.content | upper)" + "{% endfor %}" + GENERATE
ONE_TURN = "{% if messages | length > 1 %}{{ raise_exception('one message only') }}{% endif %}" + STABLE


@pytest.mark.parametrize(
    ("template", "finding"),
    [
        (STABLE, None),
        (DROPS_REASONING, "it rewrites the reasoning of an earlier answer"),
        (KEEPS_OPEN_THINK, "it rewrites an earlier answer"),  # the tag of the generation prompt is not in the history
        (TRIMS, "it rewrites an earlier answer"),
        (ONE_TURN, "it refuses a second user message"),
        ("{{ raise_exception('no') }}", "it refuses a conversation of one user message"),
    ],
)
def test_what_a_template_does_to_earlier_answers(template, finding, caplog):
    tokenizer = make_tiny_tokenizer()
    tokenizer.chat_template = template
    assert rewritten_history(tokenizer) == finding
    with caplog.at_level(logging.WARNING):
        warn_about_rewritten_history(tokenizer)
    assert bool(caplog.records) is (finding is not None)


def test_a_tokenizer_without_a_template_is_not_complained_about(caplog):
    tokenizer = make_tiny_tokenizer()
    tokenizer.chat_template = None
    with caplog.at_level(logging.WARNING):
        warn_about_rewritten_history(tokenizer)
    assert not caplog.records
