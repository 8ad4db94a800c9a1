"""vLLM's own sampling parameters, as an agent may return them."""

import pytest

from openrlhf.rollout.agent_sampling import adopt
from openrlhf.rollout.errors import AgentReturnError
from openrlhf.types import SamplingParams

CURRENT = SamplingParams(temperature=0.7, max_tokens=8, seed=3)


def test_vllms_own_class_is_taken():
    from vllm import SamplingParams as VllmSamplingParams  # its import reads the environment: not at collection
    from vllm.sampling_params import StructuredOutputsParams

    adopted = adopt(CURRENT, VllmSamplingParams(temperature=0.5, max_tokens=4, stop=["END"], logprobs=1), "step")
    assert adopted == SamplingParams(
        temperature=0.5, max_tokens=4, stop=("END",), include_stop_str_in_output=False, seed=None
    )
    structured = VllmSamplingParams(structured_outputs=StructuredOutputsParams(regex="a+"))
    assert adopt(CURRENT, structured, "step").structured_outputs == {"regex": "a+"}
    with pytest.raises(AgentReturnError, match=r"vLLM sampling_params with top_k=5; known"):
        adopt(CURRENT, VllmSamplingParams(top_k=5), "step")
