"""How the sequences of a micro-batch are laid out for a forward pass; the numbers are the same in each layout."""

from typing import Literal

from transformers import PreTrainedModel

from openrlhf.config.train import DsConfig
from openrlhf.models.attention import takes_any_mask
from openrlhf.models.vision.architectures import architecture_of

Layout = Literal["shared", "packed", "padded"]
# shared   end to end in one row, samples of one prompt computing it once
# packed   end to end in one row
# padded   a row each, padded on the right


def choose_layout(ds: DsConfig, model: PreTrainedModel) -> Layout:
    """The layout that the flags ask for and the model can run.

    Sharing needs attention that takes any mask.
    """
    vision = architecture_of(model.config)
    if not ds.packing_samples or (vision is not None and not vision.packed):
        return "padded"
    return "shared" if ds.share_prompts and takes_any_mask(model.config) else "packed"
