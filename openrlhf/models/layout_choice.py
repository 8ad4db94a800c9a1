"""Which layout a model can run."""

import logging

from openrlhf.config.train import DsConfig
from openrlhf.models.attention import takes_any_mask
from openrlhf.models.errors import ModelError
from openrlhf.models.independence import keeps_apart
from openrlhf.models.layout import Layout
from openrlhf.models.scoring import ScoringBackend
from openrlhf.models.vision.architectures import architecture_of

logger = logging.getLogger(__name__)


def choose_layout(ds: DsConfig, backend: ScoringBackend, *, dynamic_batches: bool = False) -> Layout:
    """The layout that the flags ask for and the model can run. Collective: a text model tries it on a few tokens.

    Sharing needs attention that takes any mask. A vision-language model is taken at its entry's word.

    Args:
        dynamic_batches: micro-batches are cut by packed tokens, so that padding them would break their budget.

    Raises:
        ModelError: `dynamic_batches` with a model whose sequences must be padded.
    """
    config = backend.model.config
    vision = architecture_of(config)
    if not ds.packing_samples or (vision is not None and not vision.packed):
        return "padded"
    if vision is None and not keeps_apart(backend, "packed"):
        found = f"model {config.name_or_path!r}: sequences of one row see each other in a {config.model_type} model"
        if dynamic_batches:
            raise ModelError(
                f"{found}, so they must be padded, and --train.dynamic_batch_enable counts packed tokens; leave it out"
            )
        logger.warning("%s; they are padded instead, a row each", found)
        return "padded"
    if not ds.share_prompts or not takes_any_mask(config):
        return "packed"
    return "shared" if vision is not None or keeps_apart(backend, "shared") else "packed"
