"""What every config model shares: unknown keys are refused, values never change, docstrings are the help texts."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A group of flags. The path of a field is its flag; the string under a field is its help text.

    Frozen: `resolve` builds a new config instead of changing one that a room may already hold.
    `model_fields_set` tells which fields were given; a field left at its default is not in it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)
