"""Saving a run between two steps, and going on from there as if it had never stopped.

CHECKPOINTS/global_step6/actor/        weights, optimiser, schedule, random generators, moving average
CHECKPOINTS/global_step6/critic/       the same of the critic
CHECKPOINTS/global_step6/job.json      step, prompts, KL weight, reward statistics
CHECKPOINTS/global_step6/groups.pkl    finished groups that wait for training, where there are some
CHECKPOINTS/global_step6/config.yaml   the resolved configuration
CHECKPOINTS/global_step6/hf/           with ckpt.save_hf: the policy in Hugging Face format
"""

import json
import logging
import math
import pickle
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from openrlhf.cluster.errors import ClusterError
from openrlhf.config.run import CkptConfig
from openrlhf.config.yaml_file import read_yaml, to_yaml
from openrlhf.data.errors import DataError
from openrlhf.faults import named
from openrlhf.pipeline.best_metric import rating
from openrlhf.pipeline.checkpoint_store import Checkpoint, CheckpointError, CheckpointStore, Metric
from openrlhf.pipeline.job import Job
from openrlhf.pipeline.same_run import compare
from openrlhf.pipeline.sleep import leave_the_gpu, model_awake
from openrlhf.pipeline.snapshot import Snapshot
from openrlhf.pipeline.termination import termination_waits
from openrlhf.pipeline.work_buffer import Waiting

_ANSWER_SECONDS = 60.0  # in which trainers that are well answer
logger = logging.getLogger(__name__)


class Checkpoints:
    """Decides when the run is saved, and saves it."""

    def __init__(self, job: Job, snapshot: Callable[[], Snapshot]) -> None:
        self._job, self._snapshot = job, snapshot
        self._ckpt = job.config.ckpt
        self._store = store_of(self._ckpt)
        self._at_rest: Snapshot | None = None  # after the last finished step; None: weights are moving
        self._saved = job.step if self._ckpt.saves and job.step > 0 else None  # the newest step that is on the disk

    @contextmanager
    def guard(self) -> Iterator[None]:
        """A part of the run: if it is interrupted (SIGTERM, Ctrl-C) or breaks, the last finished step is saved."""
        try:
            yield
        except KeyboardInterrupt:
            self._on_end(broken=False)
            raise
        except Exception:  # whatever broke, the last finished step is saved first; the error goes on as it is
            self._on_end(broken=True)
            raise

    @contextmanager
    def updating(self) -> Iterator[None]:
        """The part of a step in which weights and books change; it is never cut in half by SIGTERM."""
        self._at_rest = None
        with termination_waits():
            yield

    def step_is_done(self) -> None:
        """Weights, books and the number of the step agree: whatever becomes of what is left of the step, this is a
        state to go on from. Engines that did not get its weights get them when it is resumed."""
        self._job.step += 1
        if self._ckpt.saves:
            self._at_rest = self._snapshot()

    def after_step(self, evaluation: Mapping[str, float]) -> None:
        """Save if a save is due, or if this evaluation is the best so far. A save that fails is said, and the run
        goes on: it still has its earlier checkpoints."""
        if self._at_rest is not None:
            self._at_rest = self._snapshot()  # with the groups that have finished since
        elif self._saved != self._job.step:
            return
        try:
            metric = rating(self._ckpt.best_metric_key, evaluation)
            if self._saved == self._job.step:  # by its first call, or before the resume; this evaluation is late
                if metric is not None:
                    with termination_waits():
                        self._store.rate(self._job.step, metric)
            elif self._at_rest is not None and (self._is_due(self._job.step) or self._is_best(metric)):
                self._save(self._at_rest, metric)
        except CheckpointError as error:
            logger.error("%s", error)

    def _on_end(self, broken: bool) -> None:
        """The run is interrupted, or has broken: save its last finished step, where the trainers are well, and say what
        can be resumed. Nothing is raised: it would hide what the run ends of."""
        if not self._ckpt.saves:
            return
        try:
            if self._at_rest is not None and self._saved != self._at_rest.state["step"]:
                if broken:
                    self._job.cluster.policy.check(_ANSWER_SECONDS)
                leave_the_gpu(self._job)
                self._save(self._at_rest, None)
        except (CheckpointError, ClusterError) as error:
            logger.error("the last finished step cannot be saved: %s", error)
        except Exception:  # whatever a second failure is, the first one is what the run ends of
            logger.exception("the last finished step cannot be saved")
        try:
            latest = self._store.latest()
        except CheckpointError as error:
            logger.error("%s", error)
            return
        if latest is None:
            logger.warning("there is no checkpoint in %s yet", self._ckpt.path)
        else:
            logger.warning("--ckpt.load_enable goes on after step %d, from %s", latest.step, latest.folder)

    def _save(self, snapshot: Snapshot, metric: Metric | None) -> None:
        """SIGTERM takes effect when it is done: what is left of a save takes less time than another one."""
        step = snapshot.state["step"]
        with termination_waits(), self._job.clock.aside():
            with self._store.writing(step, metric) as folder:
                self._write(snapshot, folder)
            self._saved = step

    def _write(self, snapshot: Snapshot, folder: Path) -> None:
        (folder / "job.json").write_text(json.dumps(snapshot.state, default=_plain))
        if snapshot.waiting:
            (folder / "groups.pkl").write_bytes(pickle.dumps(list(snapshot.waiting)))
        (folder / "config.yaml").write_text(to_yaml(self._job.config, self._job.derived))
        try:
            self._save_models(folder)
        except ClusterError:
            raise
        except RuntimeError as error:  # what torch and DeepSpeed raise when the disk refuses
            raise OSError(f"a trainer could not write: {error}") from error

    def _save_models(self, folder: Path) -> None:
        policy, critic = self._job.cluster.policy, self._job.cluster.critic
        with model_awake(self._job, policy):
            if not self._ckpt.disable_ds:
                policy.save_state(folder / "actor")
            if self._ckpt.save_hf:
                policy.save_hf(folder / "hf")
        if critic is not None and not self._ckpt.disable_ds:
            with model_awake(self._job, critic):
                critic.save_state(folder / "critic")

    def _is_due(self, step: int) -> bool:
        return self._ckpt.save_steps > 0 and step % self._ckpt.save_steps == 0

    def _is_best(self, metric: Metric | None) -> bool:
        """Whether no checkpoint has a higher value of it; one of another metric says nothing about it."""
        if metric is None:
            return False
        known = [value for found in self._store.all() if (value := found.value(metric.name)) is not None]
        return metric.value > max(known, default=-math.inf)


def store_of(ckpt: CkptConfig) -> CheckpointStore:
    return CheckpointStore(Path(ckpt.path), ckpt.max_num, ckpt.max_mem)


def begin(job: Job) -> list[Waiting] | None:
    """Go on from a checkpoint where the run is to, as `resume`; else remove those of an earlier run, which a later
    resume would take for this one's."""
    ckpt = job.config.ckpt
    if ckpt.load_enable:
        return resume(job)
    store = store_of(ckpt)
    if ckpt.saves and ckpt.overwrite and store.all():
        logger.warning("--ckpt.overwrite: the %d checkpoints in %s are removed", len(store.all()), ckpt.path)
        store.clear()
    return None


def resume(job: Job) -> list[Waiting] | None:
    """Load the newest checkpoint into the job and its trainers; None, said in the log, where there is none.

    Returns the finished groups that were waiting for training, oldest first.

    Raises:
        CheckpointError: it belongs to another run, or cannot be read. DataError: to other prompts.
    """
    path = job.config.ckpt.path
    found = store_of(job.config.ckpt).latest()
    if found is None:
        logger.warning("--ckpt.load_enable: no checkpoint in %s, so the run starts from the beginning", path)
        return None
    origin = f"the checkpoint of step {found.step} in {path}"
    for warning in compare(read_yaml(str(found.folder / "config.yaml")), job.config, origin):
        logger.warning("%s", warning)
    if not (found.folder / "actor").is_dir():
        raise CheckpointError(f"{origin} holds no trainer states (it was saved with --ckpt.disable_ds)")
    with _damage_named(origin):
        waiting = _load_books(job, found)
        job.cluster.policy.load_state(found.folder / "actor")
        if job.cluster.critic is not None:
            job.cluster.critic.load_state(found.folder / "critic")
    logger.warning("resumed from %s", origin)
    return waiting


@contextmanager
def saving(job: Job, snapshot: Callable[[], Snapshot] | None = None) -> Iterator[Checkpoints]:
    """The checkpoints of a run, whose block is guarded by them."""
    checkpoints = Checkpoints(job, snapshot or (lambda: Snapshot(job.state_dict())))
    with checkpoints.guard():
        yield checkpoints


def _load_books(job: Job, found: Checkpoint) -> list[Waiting]:
    """The job's state, and the finished groups; our own files, so unpickling them runs nobody else's code."""
    groups = found.folder / "groups.pkl"
    waiting: list[Waiting] = pickle.loads(groups.read_bytes()) if groups.exists() else []
    job.load_state_dict(json.loads((found.folder / "job.json").read_text()))
    return waiting


@contextmanager
def _damage_named(origin: str) -> Iterator[None]:
    try:
        yield
    except (ClusterError, DataError):
        raise
    except Exception as error:  # half a pickle, or books without a key, raise whatever they lead to
        raise CheckpointError(
            f"{origin} cannot be loaded: {named(error)}; without its folder an older one is taken"
        ) from error


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"a job's state holds plain values and arrays, not {type(value).__name__}")
