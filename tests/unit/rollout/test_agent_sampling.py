import pytest

from openrlhf.rollout.agent_sampling import adopt, own_copy
from openrlhf.rollout.errors import AgentReturnError
from openrlhf.types import SamplingParams

CURRENT = SamplingParams(temperature=0.7, max_tokens=8, seed=3)


def test_a_copy_shares_nothing_that_can_change():
    original = SamplingParams(logit_bias={1: 2.0}, structured_outputs={"regex": "a"})
    copy = own_copy(original)
    copy.logit_bias[1] = 5.0
    copy.structured_outputs["regex"] = "b"
    copy.max_tokens = 1
    assert original == SamplingParams(logit_bias={1: 2.0}, structured_outputs={"regex": "a"})


@pytest.mark.parametrize(
    ("given", "held"), [("###", ("###",)), (["a", "b"], ("a", "b")), (("a",), ("a",)), (None, ()), ("", ()), ([], ())]
)
def test_a_stop_is_one_text_or_several_however_it_comes(given, held):
    assert SamplingParams(stop=given).stop == held
    assert own_copy(CURRENT, stop=given).stop == held
    assert adopt(CURRENT, {"stop": given}, "step").stop == held
    params = SamplingParams(stop=("old",))
    params.stop = given
    assert params.stop == held


@pytest.mark.parametrize(("given", "held"), [(2, (2,)), (0, (0,)), ([2, 3], (2, 3)), (None, ())])
def test_stop_token_ids_are_one_id_or_several_however_they_come(given, held):
    assert SamplingParams(stop_token_ids=given).stop_token_ids == held
    assert adopt(CURRENT, {"stop_token_ids": given}, "step").stop_token_ids == held


def test_nothing_and_the_same_object_keep_the_current_ones():
    assert adopt(CURRENT, None, "step") is CURRENT
    assert adopt(CURRENT, CURRENT, "step") is CURRENT


def test_our_own_class_replaces_all_and_is_copied():
    given = SamplingParams(temperature=0.0, max_tokens=2)
    adopted = adopt(CURRENT, given, "step")
    assert adopted == given
    assert adopted is not given


def test_a_dict_changes_what_it_names():
    adopted = adopt(CURRENT, {"max_tokens": 2, "stop": "END"}, "step")
    assert adopted == SamplingParams(temperature=0.7, max_tokens=2, seed=3, stop=("END",))


@pytest.mark.parametrize("given", [{"top_k": 5}, {"max_token": 5}])
def test_an_unknown_name_is_refused(given):
    (name,) = given
    with pytest.raises(AgentReturnError, match=f"sampling_params with {name}; known: temperature, top_p"):
        adopt(CURRENT, given, "step")
