"""Flags of the run itself: what it writes, how it logs, how long it waits."""

from openrlhf.config.base import Section


class CkptConfig(Section):
    """What the run leaves on disk."""

    output_dir: str = "./ckpt"
    """Run folder; the trained Hugging Face model lies at its root."""
    overwrite: bool = False
    """Allow an output_dir that already holds files; files of the same name are replaced. Checkpoints of an earlier run
    under ckpt.path are removed, unless ckpt.load_enable goes on from them."""
    path: str = "./ckpt/checkpoints_ppo_ray"
    """Folder of the checkpoints that a run resumes from."""
    save_steps: int = -1
    """Save a checkpoint every so many rollouts, and when the run is ended from outside; -1: never."""
    save_hf: bool = False
    """Also export a Hugging Face model with each checkpoint, into its folder `hf`."""
    disable_ds: bool = False
    """Leave trainer states (weights, optimiser) out of checkpoints; they then hold the export of ckpt.save_hf, and no
    run can resume from them."""
    max_num: int = 3
    """Checkpoints to keep; the newest and the best are never removed."""
    max_mem: float = float("inf")
    """Size of all checkpoints together, in GB of 1e9 bytes; the newest and the best are never removed."""
    load_enable: bool = False
    """Resume from the newest checkpoint under ckpt.path; start from the beginning where there is none."""
    best_metric_key: str = ""
    """Evaluation metric whose best checkpoint is kept; naming one also saves each time it improves. Empty: the first
    pass1 metric, where ckpt.save_steps is set; `none`: off."""

    @property
    def saves(self) -> bool:
        """Whether the run writes checkpoints."""
        return self.save_steps > 0 or self.best_metric_key not in ("", "none")


class WandbConfig(Section):
    """Weights & Biases."""

    key: str | None = None
    """API key; turns logging to Weights & Biases on. It is never written to disk. None: WANDB_API_KEY, if a wandb.*
    flag is given."""
    org: str | None = None
    """Organisation (entity)."""
    group: str | None = None
    """Group of the run."""
    project: str = "openrlhf_train_ppo"
    """Project."""
    run_name: str = "ppo_%m%dT%H:%M"
    """Name of the run; date patterns are filled in at the start."""


class LoggerConfig(Section):
    """Where numbers go. metrics.jsonl in the run folder is always written."""

    logging_steps: int = 1
    """Print and send metrics every so many rollouts."""
    tensorboard_dir: str | None = None
    """Folder of TensorBoard events. None: no TensorBoard."""
    wandb: WandbConfig = WandbConfig()
    num_rollouts_stored: int = 8
    """Samples of each rollout that are kept as text in the run folder; 0: none."""


class ClusterConfig(Section):
    """How long one process waits for another before the run ends with an error that names it."""

    start_timeout: float = 600.0
    """Seconds for placement and for every worker and engine to load its model."""
    rollout_timeout: float = 1800.0
    """Seconds for one rollout, rewards included."""
    train_timeout: float = 3600.0
    """Seconds for one training phase."""
    sync_timeout: float = 600.0
    """Seconds for one weight sync."""
    collective_timeout: float | None = None
    """Seconds that a rank waits for the other ranks of its model in a collective operation. None: train_timeout."""
