"""Measure a fixed set of texts while a model trains, and plot the measures next to the loss."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from . import _layerscope
from ._collector import Collector
from ._keywords import hinting
from ._run import Run, load
from ._torch import trace

#: The measures to log, each of the states and the selection that a run shows first.
SCALARS = ("q", "m_over_q", "mean_cosine", "anisotropy_svd", "effective_rank", "intrinsic_dimension")


class Probe:
    """Measure a model on the same texts at several steps of its training.

    In your own training loop, call the probe with the model and the step. For the Trainer of transformers, use `callback`. Each step becomes
    a complete run in ``out/steps``. `out` has the tables of all steps; `load`, `report` and `figures` read it like a run of `track`. If you
    resume a training run, steps that were measured before are not measured again.

    >>> probe = ls.Probe(tokenizer, texts, out="trajectory", measures="norm,cosine")  # doctest: +SKIP
    >>> for step, batch in enumerate(loader):  # doctest: +SKIP
    ...     train(model, batch)
    ...     if step % 100 == 0:
    ...         writer.add_scalars("layerscope", probe(model, step), step)

    Each call returns a dictionary for your logger, with keys such as ``layerscope/MEASURE/LAYER``. Settings are those of `trace`.
    """

    @hinting(trace, Collector.__init__)
    def __init__(self, tokenizer: Any, texts: Sequence[str], out: str | os.PathLike[str], **settings: Any) -> None:
        self.tokenizer, self.texts, self.out, self.settings = tokenizer, list(texts), Path(out), settings

    def __call__(self, model: Any, step: int) -> dict[str, float]:
        """Measure one step and return its scalars."""
        name = f"step{step}"
        folder = self.out / "steps" / name
        if not (folder / "manifest.json").exists():
            trace(model, self.tokenizer, self.texts, out=folder, overwrite=True, **self.settings)
        _layerscope.join_steps(self.out, self.steps())
        return scalars(load(folder))

    def steps(self) -> list[str]:
        """Return the names of the measured steps, in order."""
        found = [folder.parent.name for folder in (self.out / "steps").glob("step*/manifest.json")]
        return sorted(found, key=lambda name: int(name.removeprefix("step")))

    def run(self) -> Run:
        """Return the run of all steps so far."""
        return load(self.out)


def scalars(run: Run) -> dict[str, float]:
    """Return the values of a run to log, by name: ``layerscope/MEASURE/LAYER``."""
    measured, found = set(run.layers["measure"]), {}
    for measure in SCALARS:
        if measure not in measured:
            continue
        for point in ("embedding", "block", "final_norm"):
            if point not in run.layers["point"]:
                continue
            curve = run.curve(measure, point=point)
            suffix = "-final_norm" if point == "final_norm" else ""
            found |= {f"layerscope/{measure}/{layer}{suffix}": value for layer, value in zip(*curve) if value is not None}
    return found


@hinting(trace, Collector.__init__)
def callback(
    tokenizer: Any,
    texts: Sequence[str],
    out: str | os.PathLike[str],
    *,
    every: int = 100,
    log: Callable[[dict[str, float], int], object] | None = None,
    **settings: Any,
) -> Any:
    """Return a ``TrainerCallback`` that measures `texts` before the first step, every `every` steps and at the end.

    `tokenizer`, `texts` and `out` are those of `Probe`; `out` has the run of all steps. `log` is a function that takes the values and the
    step. Without it, values are logged to the active run of Weights & Biases, and to TensorBoard if the training reports to it. Settings are
    those of `trace`.

    >>> trainer = Trainer(model, ..., callbacks=[ls.callback(tokenizer, texts, "trajectory", every=50)])  # doctest: +SKIP
    """
    from transformers import TrainerCallback

    probe = Probe(tokenizer, texts, out, **settings)

    class Measuring(TrainerCallback):
        """Measure a fixed set of texts while the model trains."""

        def __init__(self) -> None:
            self.probe = probe
            self._measured: set[int] = set()
            self._log = _Log()

        def _measure(self, arguments: Any, state: Any, model: Any) -> None:
            step = int(state.global_step)
            if step in self._measured or not state.is_world_process_zero:
                return
            self._measured.add(step)
            found = probe(model, step)
            if log is not None:
                log(found, step)
            else:
                self._log.write(found, step, arguments)

        def on_train_begin(self, args, state, control, model=None, **_):
            self._measure(args, state, model)

        def on_step_end(self, args, state, control, model=None, **_):
            if state.global_step % every == 0:
                self._measure(args, state, model)

        def on_train_end(self, args, state, control, model=None, **_):
            self._measure(args, state, model)
            self._log.close()

    return Measuring()


class _Log:
    """Log values where the training run logs its own."""

    def __init__(self) -> None:
        self._writer: Any = None

    def write(self, values: dict[str, float], step: int, arguments: Any) -> None:
        wandb = sys.modules.get("wandb")
        if wandb is not None and getattr(wandb, "run", None) is not None:
            wandb.log(values, step=step)
        if "tensorboard" not in (getattr(arguments, "report_to", None) or []):
            return
        if self._writer is None:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError:
                return
            folder = os.environ.get("TENSORBOARD_LOGGING_DIR") or os.path.join(arguments.output_dir, "runs")
            self._writer = SummaryWriter(os.path.join(os.path.expanduser(folder), "layerscope"))
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
