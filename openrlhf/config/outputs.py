"""What the run writes: paths made absolute, a full run folder refused."""

from pathlib import Path

from openrlhf.config.check_words import brief
from openrlhf.config.disk import expanded, unusable
from openrlhf.config.draft import Draft
from openrlhf.config.optimiser import has_critic


def resolve_outputs(draft: Draft, openrlhf_path: str | None) -> None:
    """Anchor output paths. Inside a Ray job the working directory is Ray's temporary copy: files there vanish."""
    ckpt, logger = draft.config.ckpt, draft.config.logger
    draft.set("ckpt.output_dir", _anchor(draft, "ckpt.output_dir", ckpt.output_dir, openrlhf_path))
    if ckpt.saves or ckpt.load_enable:
        draft.set("ckpt.path", _anchor(draft, "ckpt.path", ckpt.path, openrlhf_path))
        _check_checkpoints(draft)
    if logger.tensorboard_dir is not None:
        path = _anchor(draft, "logger.tensorboard_dir", logger.tensorboard_dir, openrlhf_path)
        draft.set("logger.tensorboard_dir", path)
    if unusable(draft.config.ckpt.output_dir):
        return  # said already
    _check_folder(draft, Path(draft.config.ckpt.output_dir))
    if has_critic(draft.config) and draft.config.critic.save_value_network:
        _check_folder(draft, critic_folder(draft.config.ckpt.output_dir))


def critic_folder(output_dir: str) -> Path:
    """Where the value network is saved: beside the policy's folder."""
    return Path(f"{output_dir.rstrip('/')}_critic")


def _check_checkpoints(draft: Draft) -> None:
    ckpt, evaluation = draft.config.ckpt, draft.config.eval
    if not unusable(ckpt.path) and Path(ckpt.path).exists() and not Path(ckpt.path).is_dir():
        draft.problem(f"--ckpt.path {ckpt.path}: is a file, not a folder")
    elif ckpt.saves and not (ckpt.overwrite or ckpt.load_enable) and _holds_checkpoints(ckpt.path):
        draft.problem(
            f"--ckpt.path {ckpt.path}: holds the checkpoints of an earlier run; add --ckpt.load_enable to go on from "
            "them, choose another, or add --ckpt.overwrite to remove them"
        )
    if ckpt.saves and ckpt.disable_ds and not ckpt.save_hf:
        draft.problem("--ckpt.disable_ds without --ckpt.save_hf: checkpoints would hold no weights; add --ckpt.save_hf")
    if ckpt.best_metric_key not in ("", "none") and (evaluation.dataset is None or evaluation.steps < 1):
        draft.problem(
            f"--ckpt.best_metric_key {ckpt.best_metric_key}: this run never evaluates; give --eval.dataset and "
            "--eval.steps"
        )


def _holds_checkpoints(path: str) -> bool:
    return not unusable(path) and any(Path(path).glob("global_step*/checkpoint.json"))


def _check_folder(draft: Draft, folder: Path) -> None:
    ckpt = draft.config.ckpt
    if folder.exists() and not folder.is_dir():
        draft.problem(f"--ckpt.output_dir {folder}: is a file, not a folder")
    elif not (ckpt.overwrite or ckpt.load_enable) and any(path.is_file() for path in folder.rglob("*")):
        draft.problem(f"--ckpt.output_dir {folder}: holds files already; choose another, or add --ckpt.overwrite")


def _anchor(draft: Draft, flag: str, path: str, openrlhf_path: str | None) -> str:
    reason = unusable(path)
    if reason:
        draft.problem(f"--{flag} {brief(path)}: {reason}")
        return path
    relative = expanded(path)
    if relative.is_absolute():
        return str(relative)
    if draft.ray_job and openrlhf_path:
        return str((Path(openrlhf_path) / relative).resolve())
    absolute = str((draft.root / relative).resolve())
    if draft.ray_job:
        line = (
            f"--{flag} {path} is relative, and this Ray job runs in a temporary copy of the working directory: it is "
            f"{absolute}; set OPENRLHF_PATH or give an absolute path to keep it"
        )
        draft.warn(line)
        draft.closing.append(line)
    return absolute
