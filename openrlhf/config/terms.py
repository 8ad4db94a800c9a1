"""Flags of the terms that task rewards add to the verdict on the answer (docs/tasks.md)."""

from openrlhf.config.base import Section

OVERLONG_BUFFER = 512  # tokens before the response's limit in which `overlong_enable` takes off more and more


class TermsConfig(Section):
    """What beside the answer enters the reward of the tasks math and math_tir; without these flags, nothing."""

    format_enable: bool = False
    """Add what is wrong with the response's form, 0 to -3."""
    format_loose: bool = False
    """Do not ask for exactly one `</think>`."""
    overlong_enable: bool = False
    """Subtract up to 1 over the last 512 tokens before the response's limit."""
    quality_enable: bool = False
    """Subtract the label's `repeatness_penalty` (default 0.1) from right answers of task math that repeat themselves
    more than its `repeatness_threshold` (default 0.05)."""
    shortcut_enable: bool = False
    """An answer counts as wrong where over a tenth of the response's substrings are repetitions."""
    tool_bonus: float = 0.0
    """Added to right answers for which code ran, and not always with an error."""
    pattern_bonus: float = 0.0
    """Added to right answers of responses that take up another idea or, in task math, look back at their reasoning."""
    code_errors_enable: bool = False
    """Subtract 0.1 from right answers of which more than one program ran and over nine in ten ended with an error."""
