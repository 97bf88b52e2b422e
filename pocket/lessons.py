"""What a model learns in one step: windows of ids in, a loss out."""

from __future__ import annotations

import torch
from tokenizers import Tokenizer

import data
from recipes import Recipe


def lesson_of(model, recipe: Recipe, tokenizer: Tokenizer, device: str, compiled: bool):
    """Windows -> the loss. The draws come from the device's own generator, so that a CUDA graph may hold them."""
    prepare = masked(recipe, tokenizer, device) if recipe.masked else next_token(tokenizer)
    loss_of = (masked_loss if recipe.masked else next_token_loss)(model, device)
    if compiled:
        loss_of = torch.compile(loss_of, dynamic=False)
    return lambda windows: loss_of(*prepare(windows))


def next_token(tokenizer: Tokenizer):
    """Windows -> ids, places, what each token may see, and the token after each."""
    start = tokenizer.token_to_id(data.BOUNDARY)

    def prepare(windows: torch.Tensor):
        ids, wanted = windows[:, :-1], windows[:, 1:]
        position, same = data.places(ids, start)
        return ids, position, same.tril(), wanted

    return prepare


def masked(recipe: Recipe, tokenizer: Tokenizer, device: str):
    """Windows -> ids with some hidden, places, what each token may see, which tokens are hidden, and these.

    As many are hidden in every window, drawn from all but the marks. Those that do not show [MASK] show, by halves, any token or themselves.
    """
    special = torch.tensor([tokenizer.token_to_id(token) for token in data.SPECIALS], device=device)
    mask, start = tokenizer.token_to_id("[MASK]"), tokenizer.token_to_id("[CLS]")
    vocabulary, hidden = tokenizer.get_vocab_size(), round(recipe.guessed * recipe.positions)

    def prepare(windows: torch.Tensor):
        ids = windows[:, :-1].contiguous()
        position, same = data.places(ids, start)
        draw = torch.rand(ids.shape, device=device).masked_fill(torch.isin(ids, special), -1.0)
        guessed = draw.topk(hidden, dim=1).indices
        wanted = ids.gather(1, guessed)
        if recipe.shown < 1:
            draw = torch.rand(wanted.shape, device=device)
            other = torch.randint(len(data.SPECIALS), vocabulary, wanted.shape, device=device)
            shown = torch.where(draw < recipe.shown, mask, torch.where(draw < (1 + recipe.shown) / 2, other, wanted))
        else:
            shown = torch.full_like(wanted, mask)
        return ids.scatter(1, guessed, shown), position, same, guessed, wanted

    return prepare


def next_token_loss(model, device: str):
    def loss_of(ids, position, visible, wanted):
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            logits = model(input_ids=ids, attention_mask=bias_of(visible, device), position_ids=position).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), wanted.flatten())

    return loss_of


def masked_loss(model, device: str):
    """Logits only where a token is hidden: they would cost more than the whole encoder elsewhere."""

    def loss_of(ids, position, visible, guessed, wanted):
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            states = model.bert(input_ids=ids, attention_mask=bias_of(visible, device), position_ids=position).last_hidden_state
            asked = states.gather(1, guessed[:, :, None].expand(-1, -1, states.shape[2]))
            logits = model.cls(asked)
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), wanted.flatten())

    return loss_of


def bias_of(visible: torch.Tensor, device: str) -> torch.Tensor:
    bias = torch.zeros_like(visible, dtype=torch.bfloat16 if device == "cuda" else torch.float32)
    return bias.masked_fill(~visible, torch.finfo(bias.dtype).min)[:, None]
