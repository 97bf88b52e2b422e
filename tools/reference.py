"""The reference library's hidden states at Layerscope's points.

Shared by ``make_fixtures.py`` (which stores them) and ``parity.py`` (which compares with them). A point is

    embedding     what enters the first block
    block.i       what leaves block i, counted from 1, before any final norm
    final_norm    what leaves the norm after the last block, where the model has one
    projected     what leaves the projection after everything else, where the model has one, at a width of its own

They are taken with forward hooks, not from ``output_hidden_states``: that tuple replaces the last block's output by the
model's last state, so that in a model with a final norm the state before it is lost. How the tuple relates to the
points is checked on every capture, by :meth:`Points.mapping`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModel
from transformers.utils import logging

os.environ.setdefault("TQDM_DISABLE", "1")  # the bar of its reader of GGUF files
logging.set_verbosity_error()
logging.disable_progress_bar()

#: What the families call their list of blocks, and the norm that stands beside it.
BLOCK_LISTS = ("layer", "layers", "h", "albert_layer_groups")
FINAL_NORMS = ("ln_f", "norm", "final_norm", "final_layer_norm")
PROJECTIONS = ("project_out",)


@dataclass
class Points:
    """The states of one sequence, each ``[tokens, width]``."""

    embedding: torch.Tensor
    blocks: list[torch.Tensor]
    final_norm: torch.Tensor | None
    projected: torch.Tensor | None
    #: the library's own ``hidden_states``
    hidden_states: list[torch.Tensor]

    def named(self) -> dict[str, torch.Tensor]:
        """The points by name, in order."""
        named = {"embedding": self.embedding}
        named |= {f"block.{number}": states for number, states in enumerate(self.blocks, start=1)}
        if self.final_norm is not None:
            named["final_norm"] = self.final_norm
        if self.projected is not None:
            named["projected"] = self.projected
        return named

    def mapping(self) -> str:
        """Checks the documented relation to the library's ``hidden_states`` and says it in words."""
        layers = len(self.blocks)
        assert len(self.hidden_states) == layers + 1, f"{len(self.hidden_states)} hidden states for {layers} blocks"
        assert torch.equal(self.hidden_states[0], self.embedding), "hidden_states[0] is not the embedding"
        for number, states in enumerate(self.blocks[:-1], start=1):
            assert torch.equal(self.hidden_states[number], states), f"hidden_states[{number}] is not block {number}"
        text = "hidden_states[0] = embedding, hidden_states[i] = block.i for i < layers"
        expected, name = self.blocks[-1], "block.layers"
        if self.final_norm is not None:
            expected, name = self.final_norm, "final_norm"
        if self.projected is not None:
            expected, name = self.projected, "projected"
        assert torch.equal(self.hidden_states[-1], expected), f"hidden_states[-1] is not {name}"
        return f"{text}, hidden_states[-1] = {name}"


def attention_for(config) -> str:
    """The attention implementation to compare with.

    Eager, the plainest one, except for Falcon with ALiBi. There the library (5.22) first writes ``alibi / sqrt(head_dim)``
    into the mask and then, in its eager branch only, adds ``alibi`` to the scores once more, so the bias counts twice.
    Its default implementation (sdpa) adds it once, as the checkpoints were trained.
    """
    return "sdpa" if config.model_type == "falcon" and config.alibi else "eager"


def load(folder: Path | str, dtype: torch.dtype = torch.float32, attention: str | None = None):
    """A fresh base model from a folder or a GGUF file, computing in ``dtype`` whatever its weights are stored as."""
    config = load_config(folder)
    attention = attention or attention_for(config)
    if is_gguf(folder):
        return AutoModel.from_pretrained(Path(folder).parent, gguf_file=Path(folder).name, dtype=dtype, attn_implementation=attention).eval()
    return AutoModel.from_pretrained(folder, config=config, dtype=dtype, attn_implementation=attention).eval()


def is_gguf(model: Path | str) -> bool:
    """Whether a model is one GGUF file, not a folder."""
    return Path(model).suffix == ".gguf"


def load_config(model: Path | str):
    """The configuration of a folder, or what the library makes of a GGUF file's metadata."""
    if is_gguf(model):
        return AutoConfig.from_pretrained(Path(model).parent, gguf_file=Path(model).name)
    return AutoConfig.from_pretrained(model)


def text_model(model):
    """The part that reads tokens: itself, unless the model also sees images or wraps a decoder."""
    return getattr(model, "language_model", None) or getattr(model, "decoder", None) or model


def find_blocks(model) -> tuple[list[torch.nn.Module], torch.nn.Module | None, torch.nn.Module | None]:
    """The modules that are blocks (where weights are shared, each once), the final norm and the last projection, in any of our families."""
    text = text_model(model)
    candidates = [
        (name.count("."), name)
        for name, module in text.named_modules()
        if isinstance(module, torch.nn.ModuleList) and name.rpartition(".")[2] in BLOCK_LISTS
    ]
    if not candidates:
        raise ValueError(f"no list of blocks in {type(model).__name__}")
    name = min(candidates)[1]
    holder = text.get_submodule(name.rpartition(".")[0])
    blocks = list(text.get_submodule(name))
    if hasattr(blocks[0], "albert_layers"):  # groups of blocks
        blocks = [block for group in blocks for block in group.albert_layers]

    def first_of(names):
        return next((module for module in (getattr(holder, name, None) for name in names) if module is not None), None)

    return blocks, first_of(FINAL_NORMS), first_of(PROJECTIONS)


def capture(model, ids: list[int] | torch.Tensor) -> Points:
    """The points of one sequence, alone and without padding."""
    blocks, norm, projection = find_blocks(model)
    embedding: list[torch.Tensor] = []
    outputs: list[torch.Tensor] = []
    normed: list[torch.Tensor] = []
    projected: list[torch.Tensor] = []

    def states(value):
        return (value[0] if isinstance(value, tuple) else value).detach()[0].clone()

    def before_block(_module, arguments, keywords):
        if not embedding:
            embedding.append(states(arguments or keywords["hidden_states"]))

    def after_block(_module, _arguments, output):
        outputs.append(states(output))

    handles = []
    for block in blocks:
        handles.append(block.register_forward_pre_hook(before_block, with_kwargs=True))
        handles.append(block.register_forward_hook(after_block))
    for module, found in [(norm, normed), (projection, projected)]:
        if module is not None:
            handles.append(module.register_forward_hook(lambda _module, _arguments, output, found=found: found.append(states(output))))
    try:
        model.config.use_cache = False
        ids = torch.as_tensor(ids, dtype=torch.long)[None]
        with torch.inference_mode():
            result = text_model(model)(input_ids=ids, output_hidden_states=True)
    finally:
        for handle in handles:
            handle.remove()
    hidden_states = [state[0] for state in result.hidden_states]
    return Points(embedding[0], outputs, normed[0] if normed else None, projected[0] if projected else None, hidden_states)


def deviation(found: torch.Tensor, expected: torch.Tensor) -> float:
    """``max |found - expected| / rms(expected)``."""
    found, expected = found.double(), expected.double()
    return float((found - expected).abs().max() / expected.pow(2).mean().sqrt())


def longest_sequence(config) -> int | None:
    """How many tokens the positions allow, ``None`` where they do not limit it."""
    config = config.get_text_config()
    positions = getattr(config, "max_position_embeddings", None)
    if positions is None or getattr(config, "alibi", False):
        return None
    if config.model_type in ("roberta", "xlm-roberta"):  # rows up to the padding id hold no position
        return positions - config.pad_token_id - 1
    return positions - 2 if config.model_type == "mpnet" else positions
