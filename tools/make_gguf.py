#!/usr/bin/env python3
"""Writes the GGUF files of the tests, with the ``gguf`` package: no other program makes them.

    python tools/make_gguf.py            # crates/layerscope-model/tests/data/gguf
    python tools/make_gguf.py --check    # nothing is written: do the committed ones still follow from this script?
    python tools/make_gguf.py --smollm2 SmolLM2-135M-Instruct.Q4_1.gguf    # the reference library's tokens of that file

``blocks.gguf`` has random blocks of every kind of numbers and, as ``KIND.expected``, what ``gguf.dequantize`` makes of them. The other
files are fixtures (``fixtures/FAMILY/VARIANT``) as the format stores them: its names, rows of queries and keys in pairs where it wants them so,
fused projections one after the other, norms as they are applied. Their hidden states are those of the fixture. Two have a tokenizer;
``tokenizers.json`` has its ids for some sentences, from the reference library's own reading of the same file.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Kind
from safetensors.torch import load_file
from transformers import AutoTokenizer

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "crates/layerscope-model/tests/data/gguf"
KINDS = [Kind.F32, Kind.F16, Kind.BF16, Kind.Q8_0, Kind.Q4_0, Kind.Q4_1, Kind.Q5_0, Kind.Q5_1, Kind.Q4_K, Kind.Q5_K, Kind.Q6_K]
#: Where a block keeps f16 numbers, which random bytes would make infinite.
HALVES = {Kind.Q8_0: [0], Kind.Q4_0: [0], Kind.Q4_1: [0, 2], Kind.Q5_0: [0], Kind.Q5_1: [0, 2], Kind.Q4_K: [0, 2], Kind.Q5_K: [0, 2], Kind.Q6_K: [208]}
SENTENCES = ["the cat sat on the mat", "a tall ship, at sea", "", " two  spaces ", "He said 'no' <s> 12 times!", "the <mark> cat's hat<mark>the", "Then   the otter"]

#: What a vocabulary of the whole language is asked besides.
ODD = ["In 1984, 2,000 men paid $3.50 each.", "<|im_start|>user\nhi<|im_end|>", "  two  leading, and a tab\t.", "naïve café — “quoted” 日本語 🙂", "x = [1, 2, 3]; y += x[0]"]

#: The fixtures that are written; the package has the format's names of their tensors.
FIXTURES = [("llama", ["llama2", "llama3", "biases", "linear"]), ("qwen2", ["published"]), ("qwen3", ["published"]), ("gemma3", ["4b"]), ("gpt2", ["published"]), ("gpt_neox", ["pythia"])]
FIXTURES += [("falcon", ["7b", "40b", "11b"]), ("bloom", ["560m"]), ("olmo2", ["published"])]
ARCHITECTURES = {"gpt_neox": "gptneox"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare the committed files with what this script makes")
    parser.add_argument("--smollm2", type=Path, metavar="FILE", help="write crates/layerscope/tests/data/golden-smollm2.json, of this file, instead")
    arguments = parser.parse_args()
    if arguments.smollm2:
        lines = (ROOT / "pocket/corpus/held-out.txt").read_text().splitlines()[:200] + [sentence for sentence in ODD if sentence]
        write_ids(ROOT / "crates/layerscope/tests/data/golden-smollm2.json", tokens_of(arguments.smollm2, lines))
        return 0
    if not arguments.check:
        DATA.mkdir(parents=True, exist_ok=True)
        return make(DATA)
    with tempfile.TemporaryDirectory() as scratch:
        make(Path(scratch))
        made, kept = ({file.name: file.read_bytes() for file in folder.iterdir()} for folder in (Path(scratch), DATA))
    wrong = sorted(name for name in made.keys() | kept.keys() if made.get(name) != kept.get(name))
    print(f"these differ: {', '.join(wrong)}" if wrong else f"{len(made)} files follow from their recipe")
    return 1 if wrong else 0


def make(folder: Path) -> int:
    write_blocks(folder / "blocks.gguf")
    for family, variants in FIXTURES:
        for variant in variants:
            write_fixture(folder / f"{family}-{variant}.gguf", family, variant)
    ids = {}
    for name in ("llama-llama2.gguf", "gpt2-published.gguf"):
        ids[name] = tokens_of(folder / name, SENTENCES)
    write_ids(folder / "tokenizers.json", ids)
    return 0


def tokens_of(file: Path, sentences: list[str]) -> list:
    """Sentences with their ids, as the reference library reads the file; nothing around them."""
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    return [[sentence, tokenizer(sentence, add_special_tokens=False)["input_ids"]] for sentence in sentences]


def write_ids(file: Path, ids) -> None:
    """One line a sentence."""
    text = json.dumps(ids, ensure_ascii=False, separators=(",", ":"))
    file.write_text(text.replace("]],[", "]],\n[") + "\n")


def write_blocks(path: Path) -> None:
    """Random bytes as blocks of every kind."""
    writer = gguf.GGUFWriter(path, "blocks")
    random = np.random.default_rng(7)
    for kind in KINDS:
        size, count = gguf.GGML_QUANT_SIZES[kind][1], 3 * 256 // gguf.GGML_QUANT_SIZES[kind][0]
        blocks = random.integers(0, 256, (count, size), dtype=np.uint8)
        for at in HALVES.get(kind, [0] if kind in (Kind.F16,) else []):
            blocks[:, at + 1] &= 0xBF  # no exponent of all ones
        if kind in (Kind.F32, Kind.BF16):
            blocks[:, -1] &= 0xBF
        expected = gguf.dequantize(blocks.reshape(1, -1), kind).astype(np.float32)
        assert np.isfinite(expected).all(), kind
        writer.add_tensor(f"{kind.name}.stored", blocks.reshape(1, -1), raw_shape=(1, count * size), raw_dtype=kind)
        writer.add_tensor(f"{kind.name}.expected", expected)
    finish(writer)


def finish(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def by_pairs(rows: torch.Tensor, heads: int) -> torch.Tensor:
    """Rows of a head in the order 0, d/2, 1, d/2 + 1, ..."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def one_after_the_other(rows: torch.Tensor, heads: int, kv_heads: int) -> torch.Tensor:
    """Queries, keys and values that are stored head by head."""
    group = heads // kv_heads + 2
    parts = rows.reshape(kv_heads, group, -1, *rows.shape[1:])
    pieces = [parts[:, :-2], parts[:, -2:-1], parts[:, -1:]]
    return torch.cat([piece.reshape(-1, *rows.shape[1:]) for piece in pieces])


def write_fixture(path: Path, family: str, variant: str) -> None:
    folder = ROOT / "fixtures" / family / variant
    config = json.loads((folder / "config.json").read_text())
    config = config.get("text_config", config)
    tensors = load_file(folder / "model.safetensors")
    architecture = ARCHITECTURES.get(family, family)
    writer = gguf.GGUFWriter(path, architecture)
    heads = config.get("num_attention_heads") or config["n_head"]
    # Falcon with several queries for one key, the older way, says nothing of key heads.
    kv_heads = config.get("num_key_value_heads") or config.get("num_kv_heads") or heads
    if family == "falcon" and not config["new_decoder_architecture"]:
        kv_heads = 1
    layers = config.get("num_hidden_layers") or config["n_layer"]
    add_metadata(writer, family, config, heads, kv_heads)
    if family in ("llama", "gpt2"):
        add_tokenizer(writer, sentence_piece=family == "llama")
    names = gguf.get_tensor_name_map(next(arch for arch, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture), layers)
    kind = {torch.bfloat16: Kind.BF16, torch.float16: Kind.F16, torch.float32: Kind.F32}
    if "llama3" in variant:
        writer.add_tensor("rope_freqs.weight", llama3_factors(config))
    for name, tensor in tensors.items():
        name = name.replace("language_model.model.", "model.")
        if "vision" in name or "multi_modal" in name or name.endswith((".attn.bias", ".attention.bias", "masked_bias", "inv_freq")):
            continue
        stem, _, part = name.rpartition(".")
        if family == "gpt2" and not stem.startswith("transformer"):
            stem = f"transformer.{stem}"
        stored = names.get_name(stem)
        assert stored, name
        stored = f"{stored}.{part}"
        values = tensor.float()
        if family == "gpt2" and values.dim() == 2 and stem.rpartition(".")[2] in ("c_attn", "c_proj", "c_fc"):
            values = values.T
        if family == "llama" and ".attn_q." in stored:
            values = by_pairs(values, heads)
        if family == "llama" and ".attn_k." in stored:
            values = by_pairs(values, kv_heads)
        if family in ("bloom", "gpt_neox", "falcon") and ".attn_qkv." in stored:
            values = one_after_the_other(values, heads, kv_heads)
        if family == "gemma3" and stored.endswith("norm.weight"):
            values = values + 1
        # Norms and biases are always stored as f32.
        of = Kind.F32 if values.dim() == 1 else kind[tensor.dtype]
        writer.add_tensor(stored, gguf.quantize(values.contiguous().numpy(), of), raw_dtype=of)
    finish(writer)


def llama3_factors(config: dict) -> np.ndarray:
    """What Llama 3.1's stretching divides each frequency by."""
    scaling = config["rope_scaling"]
    dim = config["head_dim"]
    trained, low, high = (scaling[key] for key in ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor"))
    wavelengths = 2 * np.pi * config["rope_theta"] ** (np.arange(0, dim, 2) / dim)
    smooth = np.clip((trained / wavelengths - low) / (high - low), 0, 1)
    return (1 / ((1 - smooth) / scaling["factor"] + smooth)).astype(np.float32)


def add_metadata(writer: gguf.GGUFWriter, family: str, config: dict, heads: int, kv_heads: int) -> None:
    def key(*names: str, default=None):
        return next((config[name] for name in names if config.get(name) is not None), default)

    base = key("rope_theta") or (key("rope_parameters") or {}).get("rope_theta")
    width = key("hidden_size", "n_embd", "n_embed")
    head_dim = key("head_dim", default=width // heads)
    writer.add_block_count(key("num_hidden_layers", "n_layer"))
    writer.add_context_length(key("max_position_embeddings", "n_positions", "seq_length", default=131072 if family == "gemma3" else 2048))
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(key("intermediate_size", "n_inner", "ffn_hidden_size", default=4 * width))
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    if family in ("gpt2", "gpt_neox", "falcon", "bloom"):
        writer.add_layer_norm_eps(key("layer_norm_epsilon", "layer_norm_eps", default=1e-5))
    else:
        writer.add_layer_norm_rms_eps(key("rms_norm_eps", default=1e-6))
        writer.add_rope_freq_base(base or (1e6 if family == "gemma3" else 10000.0))
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    if family == "llama":
        writer.add_vocab_size(key("vocab_size"))
        writer.add_rope_dimension_count(head_dim)
    if family == "gpt_neox":
        writer.add_rope_dimension_count(int(key("rotary_pct") * head_dim))
        writer.add_parallel_residual(key("use_parallel_residual"))
    if family == "falcon" and base:
        writer.add_rope_freq_base(base)
    if family == "gemma3":
        writer.add_sliding_window(config["sliding_window"])
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
    if (scaling.get("rope_type") or scaling.get("type")) == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(scaling["factor"])


def add_tokenizer(writer: gguf.GGUFWriter, sentence_piece: bool) -> None:
    """Eighty tokens, enough for a few words."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["th", "the", "at", "ca", "cat", "he", "ai", "on", "ou", "in", "er"]
    if sentence_piece:
        tokens = ["<unk>", "<s>", "</s>", "<mark>", *letters, "▁", *words, *(f"▁{word}" for word in words), "▁▁", *"HST,.!?'0123456789-"]
        types = [2, 3, 3, 4] + [1] * 76
        scores = [0.0] * 4 + [-1000.0 + place for place in range(len(letters))] + [-999.0] + [-float(place) for place in range(len(tokens) - 31)]
        writer.add_tokenizer_model("llama")
        writer.add_tokenizer_pre("default")
        writer.add_token_scores((scores + [-1e9] * 80)[:80])
        writer.add_bos_token_id(1)
        writer.add_unk_token_id(0)
        writer.add_add_bos_token(True)
    else:
        tokens = ["<|endoftext|>", "<mark>", *letters, "Ġ", *words, *(f"Ġ{word}" for word in words), *"HST,.!?'0123456789-Ċ"]
        types = [3, 4] + [1] * 78
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("gpt-2")
        halves = [("t", "h"), ("th", "e"), ("a", "t"), ("c", "a"), ("c", "at"), ("h", "e"), ("a", "i"), ("o", "n"), ("o", "u"), ("i", "n"), ("e", "r")]
        merges = [f"{left} {right}" for left, right in halves] + [f"Ġ {word}" for word in words]
        writer.add_token_merges(merges)
        writer.add_bos_token_id(0)
    tokens = (tokens + [f"<unused {place}>" for place in range(80)])[:80]
    assert len(set(tokens)) == 80
    writer.add_token_list(tokens)
    writer.add_token_types([5 if token.startswith("<unused") else kind for token, kind in zip(tokens, types, strict=True)])
    writer.add_eos_token_id(2 if sentence_piece else 0)


if __name__ == "__main__":
    sys.exit(main())
