"""What binds a demanded call is a grammar that vLLM's own compiler takes, also for schemas that refer to themselves."""

import pytest

from openrlhf.rollout.openai_server.tool_calls import one_call_of
from tests.unit.rollout.openai_server.test_tool_calls import TOOLS

xgrammar = pytest.importorskip("xgrammar")


@pytest.mark.parametrize("tools", [TOOLS[:1], TOOLS])
def test_xgrammar_compiles_what_binds_the_call(tools):
    assert "<tool_call>" in str(xgrammar.Grammar.from_structural_tag(one_call_of(tools)["structural_tag"]))
