"""How the sequences of a micro-batch are laid out for a forward pass; the numbers are the same in each layout."""

from typing import Literal

Layout = Literal["shared", "packed", "padded"]
# shared   end to end in one row, samples of one prompt computing it once
# packed   end to end in one row
# padded   a row each, padded on the right
