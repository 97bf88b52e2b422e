#!/usr/bin/env python3
"""Builds the tiny checkpoints under ``fixtures/`` and the reference library's hidden states for them.

    python tools/make_fixtures.py                 # all of them
    python tools/make_fixtures.py --only llama    # one family
    python tools/make_fixtures.py --only llama/dynamic
    python tools/make_fixtures.py --check         # nothing is written: do the committed ones still follow from this script?

For every variant: draw weights, round them to the precision they are stored in, save the folder, then load that very
folder with ``AutoModel`` anew for every sequence and store the states at every point. So the goldens belong to the
files, published forms of config.json are proven to load, and no state is carried from one sequence to the next (dynamic
rope would). The loaded model must agree with the one that was saved, and the library's own ``hidden_states`` with the
points (``reference.Points.mapping``). The seeds are fixed: the same versions of the library give the same weights, and the same states up
to the library's rounding, which depends on the processor.
"""

from __future__ import annotations

import argparse
import copy
import json
import shutil
import sys
import tempfile
import zlib
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file

import reference
from fixtures import alibi, encoders, gpts, llamas
from fixtures.variant import VOCABULARY, Variant, randomize

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
FAMILIES = [family for module in (encoders, gpts, alibi, llamas) for family in module.VARIANTS]

#: A loaded folder may differ from the model that was saved by this much of a layer's rms (rope buffers are computed in
#: another place); it is zero nearly everywhere.
SAME = 1e-6
#: The library's own f32 rounding, measured against the same model in f64, must leave the engine room below its 1e-5.
ROUNDING = 2.5e-6
#: Small random models are chaotic now and then (a head whose query nearly vanishes before its norm); draw again then.
MOST_DRAWS = 50


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", metavar="FAMILY[/VARIANT]", help="build these only")
    parser.add_argument("--check", action="store_true", help="compare the committed ones with what this script makes")
    parser.add_argument("--out", type=Path, default=FIXTURES, help="where to build (default: %(default)s)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)

    variants = [variant for family in FAMILIES for variant in family()]
    if arguments.only:
        variants = [variant for variant in variants if arguments.only in (variant.family, f"{variant.family}/{variant.name}")]
    if not variants:
        names = sorted({variant.family for family in FAMILIES for variant in family()})
        parser.error(f"no such family or variant: {arguments.only} (families: {', '.join(names)})")

    if arguments.check:
        return check_all(variants, complete=not arguments.only)
    print(f"{'fixture':26} {'KB':>4} {'draws':>5} {'rounding':>8}  largest attention weight, std before activations, rms of last block")
    for variant in variants:
        build(variant, arguments.out / variant.family / variant.name)
    return 0


def build(variant: Variant, folder: Path) -> None:
    """One folder: config.json, weights, golden. Draws weights until the reference is well conditioned on them."""
    variant.config._attn_implementation = reference.attention_for(variant.config)
    for draw in range(MOST_DRAWS):
        seed = zlib.crc32(f"{variant.family}/{variant.name} {draw}".encode())
        model = draw_weights(variant, seed)
        write_checkpoint(variant, model, folder)
        samples = [(ids, reference.capture(reference.load(folder), ids)) for ids in sequences(variant, seed)]
        rounding = max(rounding_error(folder, points, ids) for ids, points in samples)
        if rounding < ROUNDING:
            break
    else:
        raise RuntimeError(f"{folder}: the reference itself is only good to {rounding:.1e}; draw tamer weights")

    tensors = {}
    for number, (ids, points) in enumerate(samples):
        check_same(folder, points, model, ids)
        tensors[f"ids.{number}"] = torch.tensor(ids, dtype=torch.int32)
        tensors |= {f"{point}.{number}": states.contiguous() for point, states in points.named().items()}
    (mapping,) = {points.mapping() for _, points in samples}
    metadata = {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0], "mapping": mapping}
    metadata["attention"] = reference.attention_for(variant.config)
    if variant.note:
        metadata["note"] = variant.note
    save_file(tensors, folder / "golden.safetensors", metadata=metadata)
    sort_metadata(folder / "golden.safetensors")
    size = sum(file.stat().st_size for file in folder.iterdir()) / 1000
    print(f"{variant.family + '/' + variant.name:26} {size:4.0f} {draw + 1:5} {rounding:8.1e}  {liveliness(folder, ids, points)}", flush=True)


def draw_weights(variant: Variant, seed: int) -> torch.nn.Module:
    """A model with random weights, rounded to the precision they are stored in."""
    torch.manual_seed(seed)
    model = variant.model(copy.deepcopy(variant.config)).eval()
    randomize(model, variant, seed)
    dtype = getattr(torch, variant.dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.to(dtype).float())
    return model


def check_all(variants: list[Variant], complete: bool) -> int:
    """Whether every committed fixture follows from this script: its files to the byte, its states to the library's rounding."""
    known = {FIXTURES / variant.family / variant.name for variant in variants}
    strangers = {golden.parent for golden in FIXTURES.glob("*/*/golden.safetensors")} - known if complete else set()
    problems = [f"{folder}: no variant makes it" for folder in strangers]
    worst = 0.0
    for variant in variants:
        folder = FIXTURES / variant.family / variant.name
        try:
            worst = max(worst, check(variant, folder))
        except (AssertionError, FileNotFoundError) as problem:
            problems.append(f"{folder}: {problem}")
    print("\n".join(problems) or f"{len(variants)} fixtures follow from their recipes; states within {worst:.1e} of a layer's rms")
    return 1 if problems else 0


def check(variant: Variant, folder: Path) -> float:
    """The largest deviation of the committed states from the library's here. Which draw is well conditioned depends on the processor."""
    variant.config._attn_implementation = reference.attention_for(variant.config)
    with tempfile.TemporaryDirectory() as scratch:
        for draw in range(MOST_DRAWS):
            seed = zlib.crc32(f"{variant.family}/{variant.name} {draw}".encode())
            made = Path(scratch) / "made"
            write_checkpoint(variant, draw_weights(variant, seed), made)
            if all((folder / file.name).read_bytes() == file.read_bytes() for file in made.iterdir()):
                break
        else:
            raise AssertionError("no draw gives its weights and configuration")
    golden = load_file(folder / "golden.safetensors")
    worst = 0.0
    for number, ids in enumerate(sequences(variant, seed)):
        assert golden[f"ids.{number}"].tolist() == ids, f"ids.{number} are others"
        for point, states in reference.capture(reference.load(folder), ids).named().items():
            stored = golden[f"{point}.{number}"]
            deviation = float((stored - states).abs().max() / stored.pow(2).mean().sqrt())
            # Both are within the library's rounding of the exact states.
            assert deviation <= 2 * ROUNDING, f"{point}.{number} deviates by {deviation:.1e} of the layer's rms"
            worst = max(worst, deviation)
    return worst


def write_checkpoint(variant: Variant, model: torch.nn.Module, folder: Path) -> None:
    """The folder as the library writes it, then as it was published, where that differs."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    dtype = getattr(torch, variant.dtype)
    copy.deepcopy(model).to(dtype).save_pretrained(folder, max_shard_size=variant.shard_size or "1GB")
    (folder / "generation_config.json").unlink(missing_ok=True)
    if variant.published is not None:
        text = json.dumps(variant.published, indent=2, sort_keys=True)
        (folder / "config.json").write_text(text + "\n")
        weights = folder / "model.safetensors"
        tensors = {variant.rename(name): tensor for name, tensor in load_file(weights).items()}
        assert not tensors.keys() & variant.extra.keys()
        save_file(tensors | {name: tensor.clone() for name, tensor in variant.extra.items()}, weights, metadata={"format": "pt"})
    elif variant.extra:
        raise ValueError(f"{folder}: extra tensors belong to published forms")


def sort_metadata(file: Path) -> None:
    """The writer keeps metadata in no particular order; the same golden should be the same bytes."""
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    assert len(text) <= length
    file.write_bytes(content[:8] + text.ljust(length) + content[8 + length :])


def sequences(variant: Variant, seed: int) -> list[list[int]]:
    """Random ids, without the padding id: what it means inside a text is not a matter of hidden states."""
    generator = torch.Generator().manual_seed(seed + 1)
    text = variant.config.get_text_config()
    padding = text.pad_token_id
    allowed = torch.tensor([token for token in range(VOCABULARY) if token != padding])
    return [allowed[torch.randint(len(allowed), (length,), generator=generator)].tolist() for length in variant.lengths]


def check_same(folder: Path, points: reference.Points, model: torch.nn.Module, ids: list[int]) -> None:
    """The folder gives what the model that was saved gives, freshly copied."""
    base = copy.deepcopy(getattr(model, model.base_model_prefix, model))
    for (point, found), expected in zip(points.named().items(), reference.capture(base, ids).named().values(), strict=True):
        difference = reference.deviation(found, expected)
        assert difference <= SAME, f"{folder}: loaded and saved model differ by {difference:.1e} at {point}"


def rounding_error(folder: Path, points: reference.Points, ids: list[int]) -> float:
    """How far the library in f32 is from itself in f64 (a lower bound: some of its steps stay in f32)."""
    exact = reference.capture(reference.load(folder, dtype=torch.float64), ids)
    return max(reference.deviation(found, expected) for found, expected in zip(points.named().values(), exact.named().values(), strict=True))


def liveliness(folder: Path, ids: list[int], points: reference.Points) -> str:
    """Whether attention and activations matter: the mean of the largest attention weight of each query, the standard
    deviation of what enters the activations, and the rms of the last block."""
    model = reference.load(folder, attention="eager")
    blocks, _, _ = reference.find_blocks(model)
    inputs = []
    for block in blocks:
        for name, module in block.named_modules():
            if name.endswith(("act", "act_fn", "activation", "activation_fn", "intermediate_act_fn", "gelu_impl")):
                module.register_forward_hook(lambda _module, arguments, _output: inputs.append(arguments[0].std().item()))
    with torch.inference_mode():
        result = reference.text_model(model)(input_ids=torch.tensor([ids]), output_attentions=True)
    peaks = torch.stack([weights[0].max(-1).values.mean() for weights in result.attentions])
    activations = sum(inputs) / len(inputs) if inputs else float("nan")
    return f"{peaks.mean():.2f} of 1/{len(ids)}, {activations:.2f}, {points.blocks[-1].pow(2).mean().sqrt():.2f}"


if __name__ == "__main__":
    sys.exit(main())
