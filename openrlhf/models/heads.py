"""Whether a model's attention heads can be dealt out over the processes of one engine."""

from transformers import PretrainedConfig

from openrlhf.models.errors import ModelError


def check_heads(path: str, config: PretrainedConfig, parts: int) -> None:
    """Each of `parts` processes gets the same number of heads, of queries and of keys and values.

    With more processes than heads of keys and values, several hold the same one. A config that does not say how many
    heads there are passes: vLLM knows its model better.

    Raises:
        ModelError: the numbers do not divide.
    """
    text = config.get_text_config().to_dict()
    heads = text.get("num_attention_heads")
    shared = text.get("num_key_value_heads") or heads
    for count, what in ((heads, "attention heads"), (shared, "key-value heads")):
        if count and count % parts and (what == "attention heads" or parts % count):
            raise ModelError(
                f"model {path!r}: its {count} {what} cannot be split over --vllm.tensor_parallel_size {parts} processes"
            )
