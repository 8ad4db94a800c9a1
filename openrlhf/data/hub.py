"""Datasets on the Hugging Face hub. `datasets` is imported when first used, it is heavy."""

import contextlib
import re
from collections.abc import Iterator, Set
from pathlib import Path
from typing import TYPE_CHECKING

from openrlhf.data.arrow_reader import dataset_table
from openrlhf.data.errors import DataError, listing
from openrlhf.data.layout import choose_split
from openrlhf.data.local import READERS
from openrlhf.data.rows import Table, join
from openrlhf.faults import first_line

if TYPE_CHECKING:
    import datasets

_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
_PREFIX = "hf://datasets/"
_PROBE_TIMEOUT_S = 10.0
# `datasets` guesses types in these (pandas makes 7 of "007"), so their files go through our own readers.
_UNTYPED = {"json": ".jsonl", "csv": ".csv"}


def hub_name(name: str) -> str | None:
    """`owner/name` of a name that could lie on the hub, also written `hf://datasets/owner/name`; None if it cannot."""
    name = name.removeprefix(_PREFIX)
    return name if _NAME.fullmatch(name) else None


def hub_table(name: str, data_dir: str | None, split: str, wanted: Set[str]) -> Table:
    """One split of a hub dataset; without the hub, of the copy that `datasets` cached earlier.

    DataError in one line if the hub is out of reach, the dataset or split is unknown, or the dataset cannot be read.
    """
    unreachable = _probe(name)
    with contextlib.nullcontext() if unreachable is None else _offline():
        try:
            return _load(name, data_dir, split, wanted)
        except DataError:
            raise
        except Exception as error:  # `datasets` raises dozens of types for a dataset it cannot use
            if unreachable is None:
                raise DataError(f"{name}: not readable from the hub: {first_line(error)}") from error
            raise DataError(
                f"{name}: no such file or folder here, no copy in the cache of `datasets`, and the Hugging Face hub "
                f"cannot be reached ({unreachable}); give a local path"
            ) from error


def _probe(name: str) -> str | None:
    """Why the hub cannot be reached, None if it can; asked once, where `datasets` would retry for half a minute."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError

    try:
        HfApi().dataset_info(name, timeout=_PROBE_TIMEOUT_S)
    except GatedRepoError as error:
        raise DataError(f"{name}: a gated dataset; accept its terms on the hub and log in there first") from error
    except RepositoryNotFoundError as error:
        raise DataError(
            f"{name}: no such file or folder here, and no dataset of that name on the hub (or a private one)"
        ) from error
    except HfHubHTTPError as error:
        raise DataError(f"{name}: the hub refused it: {first_line(error)}") from error
    except Exception as error:  # no route, no answer in time, offline mode: of whichever http client the hub uses
        return first_line(error)
    return None


@contextlib.contextmanager
def _offline() -> Iterator[None]:
    """Let `datasets` look in its cache only; it offers no argument for that."""
    import datasets
    import huggingface_hub.constants as hub

    before = datasets.config.HF_HUB_OFFLINE, hub.HF_HUB_OFFLINE
    datasets.config.HF_HUB_OFFLINE = hub.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        datasets.config.HF_HUB_OFFLINE, hub.HF_HUB_OFFLINE = before


def _load(name: str, data_dir: str | None, split: str, wanted: Set[str]) -> Table:
    import datasets

    builder = datasets.load_dataset_builder(name, data_dir=data_dir)
    extension = _own_reader(builder)
    if extension is not None:
        files = builder.config.data_files
        chosen = choose_split(map(str, files), split, name)
        paths = datasets.DownloadManager().download_and_extract([str(file) for file in files[chosen]])
        return join(name, (READERS[extension](Path(path), wanted) for path in paths))
    builder.download_and_prepare()
    chosen = choose_split(map(str, builder.info.splits or ()), split, name)
    dataset = builder.as_dataset(split=chosen)
    _refuse_guessed(dataset, name, wanted)
    return dataset_table(dataset, f"{name}[{chosen}]", wanted)


def _own_reader(builder: "datasets.DatasetBuilder") -> str | None:
    """The extension whose reader of ours takes the dataset's files; None if `datasets` must read them."""
    kind = builder.__module__.rpartition(".")[2]
    if (
        not builder.config.data_files
        or (kind == "json" and builder.config.field)
        or (kind == "csv" and builder.config.sep != ",")
    ):
        return None
    return _UNTYPED.get(kind)


def _refuse_guessed(dataset: "datasets.Dataset", name: str, wanted: Set[str]) -> None:
    """A cached copy of json or csv went through a reader that guesses types; refuse the columns it may have changed."""
    import datasets

    features = {key: feature for key, feature in dataset.features.items() if key in wanted}
    guessed = {
        "json": [key for key, feature in features.items() if isinstance(feature, datasets.Json)],
        "csv": [key for key, feature in features.items() if feature != datasets.Value("string")],
    }.get(str(dataset.info.builder_name), [])
    if guessed:
        raise DataError(
            f"{name}: the cached copy may have changed the values of {listing(guessed)}; name the file itself"
        )
