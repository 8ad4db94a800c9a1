"""Training the language model only."""

from transformers import PreTrainedModel

from openrlhf.models.errors import ModelError
from openrlhf.models.vision.architectures import VisionArchitecture


def freeze_vision(model: PreTrainedModel, architecture: VisionArchitecture) -> None:
    """Leave the vision encoder and its projector as they are.

    Raises:
        ModelError: a part of the model has no weights, so that the entry's names are not this model's.
    """
    trained = frozen = 0
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.startswith(architecture.language))
        trained, frozen = trained + parameter.requires_grad, frozen + (not parameter.requires_grad)
    if not (trained and frozen):
        raise ModelError(
            f"model {model.config.name_or_path!r}: {trained} weights would be trained and {frozen} frozen; the names "
            f"in the entry of {model.config.model_type} do not fit it"
        )
