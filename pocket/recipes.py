"""The five models: same width, depth and data, so that only the architecture, or the tokens, differ."""

from __future__ import annotations

from dataclasses import dataclass

import transformers

WIDTH = 80
LAYERS = 6
HEADS = 5
VOCABULARY = 2048


@dataclass(frozen=True)
class Recipe:
    """What one model is and how it is trained."""

    name: str
    what: str
    family: str
    tokenizer: str
    learning_rate: float
    steps: int
    #: The checkpoints that are kept besides the last.
    kept: tuple[int, ...] = ()
    positions: int = 128
    #: Windows per step.
    windows: int = 256
    #: Steps of linear warm-up; after it the learning rate falls with a cosine to zero.
    warm_up: int = 128
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.1
    seed: int = 1
    #: How many of the held-out sentences a checkpoint is measured on; None is all.
    held_out: int | None = None

    @property
    def masked(self) -> bool:
        return self.tokenizer == "wordpiece"

    def tokens_per_step(self) -> int:
        return self.positions * self.windows

    def schedule(self, full: bool) -> list[int]:
        """Steps at which a checkpoint is written. In full: 0, the powers of two, and every sixteenth of the run."""
        steps = {*self.kept, self.steps}
        if full:
            steps |= {0, *(1 << power for power in range(self.steps.bit_length()))}
            steps |= {self.steps * part // 16 for part in range(1, 17)}
        return sorted(step for step in steps if step <= self.steps)

    def model(self, vocabulary: int):
        """The reference library's own model, freshly initialized."""
        return MODELS[self.family](self, vocabulary)


def gpt2(recipe: Recipe, vocabulary: int):
    config = transformers.GPT2Config(
        vocab_size=vocabulary, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, n_positions=recipe.positions,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False, bos_token_id=0, eos_token_id=0,
    )
    return transformers.GPT2LMHeadModel(config)


def gpt_neox(recipe: Recipe, vocabulary: int):
    config = transformers.GPTNeoXConfig(
        vocab_size=vocabulary, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        intermediate_size=4 * WIDTH, max_position_embeddings=recipe.positions, tie_word_embeddings=True,
        use_cache=False, bos_token_id=0, eos_token_id=0,
    )
    return transformers.GPTNeoXForCausalLM(config)


def llama(recipe: Recipe, vocabulary: int):
    # The gated feed-forward has three matrices; 216 gives it the size of the others' two of 320.
    config = transformers.LlamaConfig(
        vocab_size=vocabulary, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        intermediate_size=216, max_position_embeddings=recipe.positions, tie_word_embeddings=True,
        use_cache=False, bos_token_id=0, eos_token_id=0,
    )
    return transformers.LlamaForCausalLM(config)


def bert(recipe: Recipe, vocabulary: int):
    config = transformers.BertConfig(
        vocab_size=vocabulary, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        intermediate_size=4 * WIDTH, max_position_embeddings=recipe.positions, type_vocab_size=1,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, use_cache=False,
    )
    return transformers.BertForMaskedLM(config)


MODELS = {"gpt2": gpt2, "gpt_neox": gpt_neox, "llama": llama, "bert": bert}

RECIPES = [
    Recipe(
        "pocket-gpt", "GPT-2's architecture: LayerNorm before attention and feed-forward, learned positions",
        "gpt2", "bpe", 1e-3, 16384, kept=(0, 32, 512),
    ),
    Recipe(
        "pocket-pythia", "Pythia's architecture: rotary positions, attention and feed-forward in parallel",
        "gpt_neox", "bpe", 1e-3, 16384, kept=(0, 8, 32, 128, 512, 2048, 8192),
    ),
    Recipe(
        "pocket-llama", "LLaMA's architecture: RMSNorm, rotary positions, gated feed-forward, no biases",
        "llama", "bpe", 1e-3, 16384,
    ),
    # LayerNorm after the residual sum needs a long warm-up and a small learning rate: in trials it collapsed at 2e-3 (see card.py).
    Recipe(
        "pocket-bert", "BERT's architecture: an encoder with LayerNorm after every residual sum, a masked language model",
        "bert", "wordpiece", 1e-3, 16384, kept=(0, 512, 2048), warm_up=2048, betas=(0.9, 0.98), weight_decay=0.01,
    ),
    Recipe(
        "pocket-char", "pocket-gpt over single bytes",
        "gpt2", "bytes", 1e-3, 16384, positions=512, windows=128,
    ),
]
