"""Measure torch models: `trace` for Hugging Face language models, `hook` for any module."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from ._collector import Collector
from ._errors import UsageError
from ._keywords import hinting
from ._run import Run

if TYPE_CHECKING:
    import torch


#: The program finds the norm beyond which states are massive in so many documents.
_PILOT = 32


@hinting(Collector.__init__)
def trace(
    model: torch.nn.Module,
    tokenizer: Any,
    texts: Iterable[str],
    *,
    out: str | os.PathLike[str] | None = None,
    batch_size: int = 16,
    max_length: int | None = None,
    specials: str = "exclude",
    massive: float = 10,
    collector: Collector | None = None,
    overwrite: bool = False,
    **settings: Any,
) -> Run:
    """Run texts through a torch model of Hugging Face transformers and measure its hidden states.

    `model` reads `texts` in batches of `batch_size`. Texts longer than `max_length` tokens (default: the model's maximum) are cut, with a
    warning. Padding never counts. The model reads the special tokens that `tokenizer` adds around a text, but statistics leave them out
    unless `specials` is "include". The model's mode and gradients stay as they are.

    Layers are those of ``hidden_states``. If the model ends in a norm, the last layer has two points: `block` (before the norm) and
    `final_norm` (after it).

    A state counts as massive when its norm exceeds `massive` times the median of its point, which the first 32 texts set, as in `measure`.

    The run is written to `out`, and `overwrite` replaces what is there. Without `out`, the run is deleted with the returned object. Settings
    are those of `Collector`. If you give a `collector`, the states go into it instead of a new one.

    >>> from transformers import AutoModel, AutoTokenizer  # doctest: +SKIP
    >>> model, tokenizer = AutoModel.from_pretrained("gpt2"), AutoTokenizer.from_pretrained("gpt2")  # doctest: +SKIP
    >>> run = ls.trace(model, tokenizer, open("novels.txt"), measures="norm,cosine")  # doctest: +SKIP
    """
    if specials not in ("exclude", "include"):
        raise UsageError(f"specials {specials!r} is not understood; give 'exclude' or 'include'")
    gatherer = _Tracer(model, tokenizer, max_length, specials, collector, settings)
    documents = enumerate(_line(text) for text in ([texts] if isinstance(texts, str) else texts))
    first = list(islice(documents, _PILOT))
    if collector is None and "massive_norm" not in settings:
        gatherer.set_massive([first[start : start + batch_size] for start in range(0, len(first), batch_size)], massive)
    documents = chain(first, documents)
    while batch := list(islice(documents, batch_size)):
        gatherer.read(batch)
    if gatherer.collector is None:
        raise UsageError("there are no texts to trace")
    if gatherer.cut:
        warnings.warn(f"{gatherer.cut} texts were cut at {gatherer.max_length} tokens", stacklevel=2)
    return gatherer.collector.finish(out, names=gatherer.names(), overwrite=overwrite)


def _line(text: str) -> str:
    if not isinstance(text, str):
        raise UsageError(f"texts contain {type(text).__name__}; give strings")
    return text.rstrip("\n")


class _Tracer:
    """Run batches of texts through a model, one after another."""

    def __init__(self, model: Any, tokenizer: Any, max_length: int | None, specials: str, collector: Collector | None, settings: dict[str, Any]):
        self.model, self.tokenizer, self.specials = model, tokenizer, specials
        self.collector, self.settings = collector, settings
        limits = [getattr(model.config, "max_position_embeddings", None), getattr(tokenizer, "model_max_length", None), max_length]
        known = [limit for limit in limits if limit and limit < 10**9]
        self.max_length = min(known) if known else None
        self.seen: set[int] = set()
        self.cut = 0

    def set_massive(self, batches: list[list[tuple[int, str]]], multiple: float) -> None:
        """Set the norm above which states are massive at each point: a multiple of the median norm of these texts' states."""
        import torch

        norms: dict[tuple[int, str], list[Any]] = {}
        for batch in batches:
            rows = self._rows(batch)
            if rows is None:
                continue
            for (layer, point), states in self._states(rows):
                counted = states.detach().to("cpu")[rows["counted"]].double().norm(dim=-1)
                norms.setdefault((layer, point or ("block" if layer else "embedding")), []).append(counted[torch.isfinite(counted)])
        known = {place: torch.cat(own) for place, own in norms.items()}
        found = {place: multiple * float(own.quantile(0.5)) for place, own in known.items() if len(own)}
        self.settings = {**self.settings, "massive_norm": {place: norm for place, norm in found.items() if norm > 0} or None}

    def read(self, batch: list[tuple[int, str]]) -> None:
        """Put the hidden states of some texts into the collector."""
        rows = self._rows(batch)
        if rows is None:
            return
        ids, real, counted = rows["ids"], rows["attention"].bool(), rows["counted"]
        self.cut += rows["cut"]
        self.seen.update(ids[counted].tolist())
        for (layer, point), states in self._states(rows):
            if self.collector is None:
                self.collector = self._new_collector(states.shape[-1])
            # Drop padding here, so that sequences and pairs are those of a batch without padding.
            self.collector.update(
                layer, states.detach().to("cpu")[real], ids[real], rows["documents"][real], rows["positions"][real], mask=counted[real],
                point=point,
            )

    def _states(self, rows: dict[str, Any]) -> Iterator[tuple[tuple[int, str | None], Any]]:
        where = next(self.model.parameters()).device
        return _states(self.model, rows["ids"].to(where), rows["attention"].to(where))

    def _rows(self, batch: list[tuple[int, str]]) -> dict[str, Any] | None:
        """Return the tokens of some texts, padded; which of them are real, and which count."""
        import torch

        encoded = self.tokenizer([text for _, text in batch], return_special_tokens_mask=True)
        rows, cut = [], 0
        for (document, _), ids, special in zip(batch, encoded["input_ids"], encoded["special_tokens_mask"]):
            if self.max_length and len(ids) > self.max_length:
                cut += 1
                ids, special = ids[: self.max_length], special[: self.max_length]
            if ids:
                rows.append((document, ids, special))
        if not rows:
            return None
        width = max(len(ids) for _, ids, _ in rows)
        pad = self.tokenizer.pad_token_id or 0
        padded = lambda values, fill: torch.tensor([list(row) + [fill] * (width - len(row)) for row in values])
        attention = padded([[1] * len(ids) for _, ids, _ in rows], 0)
        counted = attention.bool()
        if self.specials == "exclude":
            counted &= ~padded([special for _, _, special in rows], 1).bool()
        return {
            "ids": padded([ids for _, ids, _ in rows], pad),
            "attention": attention,
            "counted": counted,
            "documents": torch.tensor([document for document, _, _ in rows])[:, None].expand(-1, width),
            "positions": torch.arange(width)[None].expand(len(rows), -1),
            "cut": cut,
        }

    def _new_collector(self, dim: int) -> Collector:
        config = self.model.config
        name = os.path.basename(str(getattr(config, "_name_or_path", "") or "")) or type(self.model).__name__
        facts = {
            "family": str(getattr(config, "model_type", type(self.model).__name__)),
            "heads": int(getattr(config, "num_attention_heads", None) or 0),
            "parameters": sum(parameter.numel() for parameter in self.model.parameters()),
            "vocabulary": int(getattr(config, "vocab_size", None) or 0),
        }
        settings = dict(self.settings)
        return Collector(dim, name=settings.pop("name", name), model={**facts, **settings.pop("model", {})}, **settings)

    def names(self) -> dict[int, str]:
        """Return the names of the tokens."""
        ids = sorted(self.seen)
        return dict(zip(ids, self.tokenizer.convert_ids_to_tokens(ids)))


def _states(model: Any, ids: Any, attention: Any) -> Iterator[tuple[tuple[int, str | None], Any]]:
    """Yield the hidden states of a batch at every point, in order."""
    import torch

    training = model.training
    model.eval()
    outputs: dict[str, tuple[Any, Any]] = {}
    handles = [
        module.register_forward_hook(lambda _, given, output, name=name: outputs.__setitem__(name, (given, output)))
        for name, module in model.named_modules()
        if _may_be_final_norm(model, name, module)
    ]
    try:
        with torch.inference_mode():
            output = model(input_ids=ids, attention_mask=attention, output_hidden_states=True, return_dict=True)
    finally:
        for handle in handles:
            handle.remove()
        model.train(training)
    states = getattr(output, "hidden_states", None)
    if states is None:
        states = getattr(output, "decoder_hidden_states", None)
    if states is None:
        raise UsageError(f"{type(model).__name__} gives no hidden states; use hook() on its blocks")
    last = len(states) - 1
    for layer, state in enumerate(states[:-1]):
        yield (layer, None), state
    norms = [given[0] for given, made in outputs.values() if torch.is_tensor(made) and made.data_ptr() == states[-1].data_ptr()]
    if norms and torch.is_tensor(norms[0]) and norms[0].shape == states[-1].shape:
        yield (last, "block"), norms[0]
        yield (last, "final_norm"), states[-1]
    else:
        yield (last, None), states[-1]


def _may_be_final_norm(model: Any, name: str, module: Any) -> bool:
    """Whether a module looks like a norm outside all blocks: a leaf with a one-dimensional weight that is in no list of modules."""
    if any(part.isdigit() for part in name.split(".")) or any(True for _ in module.children()):
        return False
    weight = getattr(module, "weight", None)
    return weight is not None and weight.dim() == 1


class Hook:
    """Pass the states of each forward pass on to a `Collector`. `hook` yields it."""

    def __init__(self, modules: Sequence[tuple[str, Any]], take_input: bool, settings: dict[str, Any]) -> None:
        self._modules, self._take_input, self._settings = modules, take_input, settings
        self._given: dict[str, Any] = {}
        self._documents = 0
        self._rows = 0
        #: The collector; None until the first states arrive.
        self.collector: Collector | None = None
        first = 1 if take_input else 0
        #: The module whose output each layer is.
        self.layer_names: dict[int, str] = ({0: "input"} if take_input else {}) | {
            layer: name for layer, (name, _) in enumerate(modules, first)
        }

    def batch(self, *, groups: Any = None, documents: Any = None, mask: Any = None) -> None:
        """Identify the rows of the next forward pass. Call it again before each pass.

        `groups` and `mask` have one value for every row (the leading axes of the states), `documents` one for every element of the batch.
        """
        self._given = {"groups": groups, "documents": documents, "mask": mask}

    def finish(self, out: str | os.PathLike[str] | None = None, **options: Any) -> Run:
        """Compute the tables of all states so far. See `Collector.finish`."""
        if self.collector is None:
            raise UsageError("the hooked modules were never called; run the model inside the with block")
        return self.collector.finish(out, **options)

    def _begin(self, module: Any, inputs: tuple[Any, ...]) -> None:
        tensor = _tensor(inputs)
        self._rows = int(tensor.shape[0]) if tensor is not None and tensor.dim() > 1 else 1
        self._first = self._documents
        self._documents += self._rows
        if self._take_input and tensor is not None:
            self._enter(0, "input", tensor)

    def _enter(self, layer: int, name: str, states: Any) -> None:
        import torch

        if states is None:
            raise UsageError(f"module {name} gives no tensor")
        states = states.detach()
        dim = int(states.shape[-1])
        if self.collector is None:
            modules = ", ".join(self.layer_names.values())
            settings = dict(self._settings)
            facts = {"family": f"torch modules {modules}"[:200], **settings.pop("model", {})}
            self.collector = Collector(dim, model=facts, **settings)
        if dim != self.collector.dim:
            raise UsageError(f"module {name} gives {dim} components instead of {self.collector.dim}; hook it separately")
        elements = int(states.shape[0]) if states.dim() > 1 else 1
        per = states.numel() // dim // max(elements, 1)
        documents = self._given.get("documents")
        documents = torch.arange(self._first, self._first + elements) if documents is None else torch.as_tensor(documents).cpu()
        self.collector.update(
            layer,
            states.reshape(-1, dim).cpu(),
            _flat(self._given.get("groups")),
            documents.reshape(-1).repeat_interleave(per),
            torch.arange(per).repeat(elements),
            mask=_flat(self._given.get("mask")),
            point="block",
        )

    @contextmanager
    def _registered(self) -> Iterator[Hook]:
        handles = []
        first = 1 if self._take_input else 0
        for place, (name, module) in enumerate(self._modules):
            if place == 0:
                handles.append(module.register_forward_pre_hook(self._begin))
            layer = place + first
            handles.append(module.register_forward_hook(lambda _, __, output, layer=layer, name=name: self._enter(layer, name, _tensor(output))))
        last = self._modules[-1][1]
        handles.append(last.register_forward_hook(lambda *_: self._given.clear()))
        try:
            yield self
        finally:
            for handle in handles:
                handle.remove()


@hinting(Collector.__init__)
@contextmanager
def hook(
    modules: torch.nn.Module | Sequence[torch.nn.Module] | Mapping[str, torch.nn.Module], *, take_input: bool = True, **settings: Any
) -> Iterator[Hook]:
    """Stream the outputs of torch modules into a `Collector` inside a ``with`` block. The outputs are not kept.

    `modules` is a list or a mapping of modules in the order of their calls, or one module, whose longest list of blocks is used. If a module
    returns a tuple, its first tensor is the output. The first axis of an output is the batch, and the last has the components. Every element of a
    batch is a document; the axes between are its positions. Layer 0 is the input of the first module, and layer i the output of the i-th. If
    `take_input` is False, the first module's output is layer 0. Settings are those of `Collector`. The first forward pass sets the number of
    components.

    >>> with ls.hook(vit.encoder.layers, measures="norm,spectrum") as watch:  # doctest: +SKIP
    ...     for images, labels in loader:
    ...         vit(images)
    >>> watch.finish().report("vit.html")  # doctest: +SKIP
    """
    chosen = _chosen(modules)
    watch = Hook(chosen, take_input, settings)
    with watch._registered():
        yield watch


def _chosen(modules: Any) -> list[tuple[str, Any]]:
    if isinstance(modules, Mapping):
        chosen = list(modules.items())
    elif hasattr(modules, "named_modules"):
        lists = [
            (name, list(module.children()))
            for name, module in modules.named_modules()
            if type(module).__name__ in ("ModuleList", "Sequential") and any(True for _ in module.children())
        ]
        if not lists:
            raise UsageError(f"{type(modules).__name__} has no list of blocks; give the modules themselves")
        name, blocks = max(lists, key=lambda found: len(found[1]))
        chosen = [(f"{name}.{place}" if name else str(place), block) for place, block in enumerate(blocks)]
    else:
        chosen = [(str(place), module) for place, module in enumerate(modules)]
    if not chosen:
        raise UsageError("there are no modules to hook")
    if "torch" not in sys.modules or not all(hasattr(module, "register_forward_hook") for _, module in chosen):
        raise UsageError("hook() takes torch modules")
    return chosen


def _tensor(value: Any) -> Any:
    """Return the first tensor of a module's input or output."""
    import torch

    if torch.is_tensor(value):
        return value
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return next((found for found in map(_tensor, value) if found is not None), None)
    return None


def _flat(values: Any) -> Any:
    return values.reshape(-1) if hasattr(values, "reshape") else values
