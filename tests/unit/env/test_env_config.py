"""The registry of environments."""

import pytest

from openrlhf.config.env import EnvConfig
from openrlhf.env.env_config import ENV_GENERATE_CONFIG, environments_of
from openrlhf.env.errors import EnvError
from openrlhf.env.math_tir.executor import MathTirExecutor


def test_the_names_of_the_documents():
    assert {"math_tir_generate", "math_tir_async"} <= set(ENV_GENERATE_CONFIG)


async def test_two_names_of_one_thing_share_its_executor():
    executor = environments_of(EnvConfig(server="http://localhost", code={"port": 1}))
    first = executor("math_tir_async")
    assert isinstance(first, MathTirExecutor)
    assert executor("math_tir_generate") is first
    await first.close()


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(EnvError, match=r"is called 'chess'; known: .*math_tir_async, math_tir_generate"):
        environments_of(EnvConfig())("chess")
