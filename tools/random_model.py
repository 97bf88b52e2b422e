#!/usr/bin/env python3
"""Makes a folder with a random model of a common size, for speed and parity.

    python tools/random_model.py --family bert --layers 12 --width 768 OUT
    python tools/random_model.py --family llama --layers 32 --width 4096 --dtype bfloat16 OUT
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
import transformers as hf
from transformers.utils import logging

logging.disable_progress_bar()


def make(
    folder: Path, family: str, layers: int = 12, width: int = 768, vocabulary: int | None = None, seed: int = 0, dtype: str = "float32"
) -> Path:
    """Weights from the library's initialization at twice its usual spread, norms and biases moved off their defaults."""
    torch.manual_seed(seed)
    torch.set_default_dtype(getattr(torch, dtype))
    heads = max(1, width // 64)
    if family == "bert":
        sizes = dict(hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * width)
        model = hf.BertModel(hf.BertConfig(**sizes, vocab_size=vocabulary or 30522, initializer_range=0.04), add_pooling_layer=False)
    elif family == "gpt2":
        sizes = dict(n_embd=width, n_layer=layers, n_head=heads)
        model = hf.GPT2Model(hf.GPT2Config(**sizes, vocab_size=vocabulary or 50257, initializer_range=0.04))
    elif family == "llama":
        # As in models of 135 million and of 7 billion parameters.
        heads = width // (128 if width >= 2048 else 64)
        inner = (8 * width // 3 + 255) // 256 * 256
        groups = heads // 3 if heads % 3 == 0 else heads
        sizes = dict(hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=groups, intermediate_size=inner)
        with torch.device("cuda" if torch.cuda.is_available() and width >= 2048 else "cpu"):
            model = hf.LlamaModel(hf.LlamaConfig(**sizes, vocab_size=vocabulary or 32000, initializer_range=0.04))
    else:
        raise ValueError(f"no such family: {family}")
    with torch.no_grad():
        for module in model.modules():
            for name, parameter in module.named_parameters(recurse=False):
                if parameter.dim() == 1:
                    spread = 0.1 if isinstance(module, torch.nn.LayerNorm) else 0.04
                    parameter.add_(spread * torch.randn_like(parameter))
    model.save_pretrained(folder)
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to write")
    parser.add_argument("--family", choices=("bert", "gpt2", "llama"), default="bert")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--vocabulary", type=int, help="rows of the token embedding (default: the family's usual)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32", help="default: %(default)s")
    arguments = parser.parse_args()
    make(arguments.out, arguments.family, arguments.layers, arguments.width, arguments.vocabulary, arguments.seed, arguments.dtype)
    print(arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
