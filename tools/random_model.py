#!/usr/bin/env python3
"""Makes a folder with a random model of a common size, for speed and parity.

    python tools/random_model.py --family bert --layers 12 --width 768 OUT
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
import transformers as hf
from transformers.utils import logging

logging.disable_progress_bar()


def make(folder: Path, family: str, layers: int = 12, width: int = 768, vocabulary: int | None = None, seed: int = 0) -> Path:
    """Weights from the library's initialization at twice its usual spread, norms and biases moved off their defaults."""
    torch.manual_seed(seed)
    heads = max(1, width // 64)
    if family == "bert":
        sizes = dict(hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * width)
        model = hf.BertModel(hf.BertConfig(**sizes, vocab_size=vocabulary or 30522, initializer_range=0.04), add_pooling_layer=False)
    elif family == "gpt2":
        sizes = dict(n_embd=width, n_layer=layers, n_head=heads)
        model = hf.GPT2Model(hf.GPT2Config(**sizes, vocab_size=vocabulary or 50257, initializer_range=0.04))
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
    parser.add_argument("--family", choices=("bert", "gpt2"), default="bert")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--vocabulary", type=int, help="rows of the token embedding (default: the family's usual)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    make(arguments.out, arguments.family, arguments.layers, arguments.width, arguments.vocabulary, arguments.seed)
    print(arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
