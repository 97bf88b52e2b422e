"""The five models: same depth and data, so that the architecture, the tokens or, in pocket-pythia, the width differ."""

from __future__ import annotations

from dataclasses import dataclass

import transformers

LAYERS = 6
HEADS = 4
VOCABULARY = 4096

Changes = dict[str, float]


@dataclass(frozen=True)
class Recipe:
    """What one model is and how it is trained."""

    name: str
    what: str
    family: str
    tokenizer: str
    steps: int
    #: Of AdamW: of all weights, or where there is Muon, of embeddings, biases and norms.
    learning_rate: float = 1e-3
    #: Of Muon, which then trains the matrices of the blocks; 0 is without.
    muon: float = 0.0
    width: int = 128
    #: The checkpoints that are kept besides the last.
    kept: tuple[int, ...] = ()
    positions: int = 128
    #: Windows per step.
    windows: int = 128
    #: Steps of linear warm-up; after it the learning rate falls with a cosine to zero.
    warm_up: int = 256
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.1
    seed: int = 1
    #: The share of tokens that a masked model must guess, and the share of these that show [MASK].
    guessed: float = 0.15
    shown: float = 1.0
    #: What is tried before the training, for `trial_steps` each, over the best that was found before.
    trials: tuple[Changes, ...] = ()
    trial_steps: int = 1000
    #: Of the time for training, against the other models'.
    weight: float = 1.0

    @property
    def masked(self) -> bool:
        return self.tokenizer == "wordpiece"

    def tokens_per_step(self) -> int:
        return self.positions * self.windows

    def model(self, vocabulary: int):
        """The reference library's own model, freshly initialized."""
        return MODELS[self.family](self, vocabulary)


def gpt2(recipe: Recipe, vocabulary: int):
    config = transformers.GPT2Config(
        vocab_size=vocabulary, n_embd=recipe.width, n_layer=LAYERS, n_head=HEADS, n_positions=recipe.positions,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False, bos_token_id=0, eos_token_id=0,
    )
    return transformers.GPT2LMHeadModel(config)


def gpt_neox(recipe: Recipe, vocabulary: int):
    config = transformers.GPTNeoXConfig(
        vocab_size=vocabulary, hidden_size=recipe.width, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        intermediate_size=4 * recipe.width, max_position_embeddings=recipe.positions, tie_word_embeddings=True,
        use_cache=False, bos_token_id=0, eos_token_id=0,
    )
    return transformers.GPTNeoXForCausalLM(config)


def llama(recipe: Recipe, vocabulary: int):
    # The gated feed-forward has three matrices; 344 gives it the size of the others' two of 512.
    config = transformers.LlamaConfig(
        vocab_size=vocabulary, hidden_size=recipe.width, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        intermediate_size=344, max_position_embeddings=recipe.positions, tie_word_embeddings=True,
        use_cache=False, bos_token_id=0, eos_token_id=0,
    )
    return transformers.LlamaForCausalLM(config)


def bert(recipe: Recipe, vocabulary: int):
    config = transformers.BertConfig(
        vocab_size=vocabulary, hidden_size=recipe.width, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        intermediate_size=4 * recipe.width, max_position_embeddings=recipe.positions, type_vocab_size=1,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, use_cache=False,
    )
    model = transformers.BertForMaskedLM(config)
    # There is one kind of segment; the embeddings of positions can say what its own would.
    model.bert.embeddings.token_type_embeddings.weight.requires_grad_(False).zero_()
    return model


MODELS = {"gpt2": gpt2, "gpt_neox": gpt_neox, "llama": llama, "bert": bert}

ADAM = ({"learning_rate": 1e-3, "muon": 0.0}, {"learning_rate": 3e-3})
MUON = ({"learning_rate": 3e-3, "muon": 0.01}, {"learning_rate": 3e-3, "muon": 0.02}, {"learning_rate": 3e-3, "muon": 0.04})

# Rates, shares and decays are what these trials chose; the numbers of steps were not tried.
RECIPES = [
    Recipe(
        "pocket-pythia", "Pythia's architecture: rotary positions, attention and feed-forward in parallel",
        "gpt_neox", "bpe", 16384, learning_rate=3e-3, muon=0.04, width=64, kept=(0, 8, 32, 128, 512, 1024, 2048, 4096, 8192),
        trials=(*ADAM, *MUON), weight=0.8,
    ),
    Recipe(
        "pocket-bert", "BERT's architecture: an encoder with LayerNorm after every residual sum, a masked language model",
        "bert", "wordpiece", 56320, learning_rate=3e-3, muon=0.01, betas=(0.9, 0.98), warm_up=1024, weight_decay=0.01, guessed=0.25, shown=0.8,
        trials=(
            {"learning_rate": 1e-3, "muon": 0.0, "guessed": 0.15, "shown": 0.8, "warm_up": 1024, "weight_decay": 0.01}, {"shown": 1.0},
            {"learning_rate": 2e-3}, *MUON,
            {"guessed": 0.25}, {"weight_decay": 0.1},
        ),
        trial_steps=2000, weight=5.0,
    ),
    Recipe(
        "pocket-gpt", "GPT-2's architecture: LayerNorm before attention and feed-forward, learned positions",
        "gpt2", "bpe", 16896, learning_rate=3e-3, muon=0.04, trials=(*ADAM, *MUON), weight=1.7,
    ),
    Recipe(
        "pocket-llama", "LLaMA's architecture: RMSNorm, rotary positions, gated feed-forward, no biases",
        "llama", "bpe", 16384, learning_rate=3e-3, muon=0.02, trials=(*ADAM, *MUON), weight=1.7,
    ),
    Recipe(
        "pocket-char", "pocket-gpt over single bytes",
        "gpt2", "bytes", 12288, learning_rate=3e-3, muon=0.04, positions=512, windows=32, trials=(*ADAM, *MUON), weight=1.4,
    ),
]
