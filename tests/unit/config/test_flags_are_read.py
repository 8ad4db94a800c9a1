"""Nothing is parsed and then ignored: each flag that works is read by some room, or settled by resolve."""

import ast
from pathlib import Path

from openrlhf.config.planned import feature_of
from openrlhf.config.schema import flags

PACKAGE = Path(__file__).parents[3] / "openrlhf"
SETTLED_BY_RESOLVE = {
    "rollout.vllm_generate_batch_size",  # only rollout.batch_size itself passes
    "data.dataloader_num_workers",  # a named warning
    "data.disable_fast_tokenizer",  # a named warning
    "local_rank",  # a named warning
    "ckpt.overwrite",  # whether a full folder is refused
    "ds.param_dtype",  # rooms read it as DsConfig.dtype
    "ds.enable_sleep",  # switched off with a named warning
}


def test_every_flag_is_read_somewhere():
    files = [file for file in PACKAGE.rglob("*.py") if "config" not in file.relative_to(PACKAGE).parts[:1]]
    read = {
        node.attr for file in files for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Attribute)
    }
    working = {path for path in flags() if feature_of(path) is None} - SETTLED_BY_RESOLVE
    assert sorted(path for path in working if path.rpartition(".")[2] not in read) == []
