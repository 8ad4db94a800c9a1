"""Flags of the prompt set."""

from openrlhf.config.base import Section


class DataConfig(Section):
    """The training prompts."""

    prompt_dataset: str | None = None
    """File, folder or hub name of the prompts; `path@dir` names a folder inside it; commas separate several.
    Required."""
    prompt_probs: str | None = None
    """Sampling probabilities of several datasets, separated by commas. None: one after the other."""
    prompt_split: str = "train"
    """Split of the prompt dataset, e.g. `train` or `train[:1%]`."""
    input_key: str = "input"
    """Field of a row that holds the prompt."""
    label_key: str | None = None
    """Field of a row that holds the label for the reward. None: labels are empty."""
    input_template: str | None = None
    """Text with one `{}` into which a prompt is put, when no chat template is used."""
    apply_chat_template: bool = False
    """Render prompts, texts or lists of messages, with the model's chat template: its processor's where that has one,
    else its tokenizer's. It is given the tools of a column `tools` too: a list of objects, or its
    JSON text; with anything else the column has no effect. Null entries stay in JSON files; those of typed columns
    (Parquet, Arrow, the hub) are left out."""
    max_len: int = 2048
    """Tokens of prompt and response together."""
    max_samples: int = 100_000_000
    """Use at most this many prompts."""
    disable_fast_tokenizer: bool = False
    """No effect: transformers 5 has one tokenizer for each model, the fast one where there is one."""
    dataloader_num_workers: int = 0
    """Processes that read data beside the main one."""
    image_key: str = "images"
    """Field of a row that holds its images: a path, address, bytes or image, or a list of them; null for none."""
    max_images_per_prompt: int = 0
    """Images that one prompt may have, and one episode with all its turns. 0: text only."""
