"""How the pocket models are trained: what is learned in a step, by what rule, in whose turn; and what the cards say."""

import dataclasses
import json
import math
import re
import sys
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer

POCKET = Path(__file__).resolve().parents[2] / "pocket"
sys.path.insert(0, str(POCKET))
import data  # noqa: E402
import evaluate  # noqa: E402
import lessons  # noqa: E402
import optimizers  # noqa: E402
import training  # noqa: E402
import turns  # noqa: E402
from recipes import RECIPES, Recipe  # noqa: E402

ENCODER = next(recipe for recipe in RECIPES if recipe.masked)


def tokenizer_of(recipe: Recipe) -> Tokenizer:
    return Tokenizer.from_file(str(POCKET / recipe.name / "tokenizer.json"))


def windows_of(recipe: Recipe, rows: int) -> torch.Tensor:
    tokenizer = tokenizer_of(recipe)
    start, end = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    encoded = data.encode(tokenizer, data.read_lines(data.HELD_OUT)[:200])
    return data.Windows(encoded, start, end, recipe.positions, 1, "cpu").batch(rows)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_recipes_are_those_of_the_models(recipe):
    facts = json.loads((POCKET / recipe.name / "training.json").read_text())
    now = json.loads(json.dumps(dataclasses.asdict(recipe)))
    assert {name: now[name] for name in facts["recipe"]} == facts["recipe"]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_recipes_are_what_the_trials_chose(recipe):
    """Each trial changes the best before it, and the recipe is the best of all."""
    tried = json.loads((POCKET / recipe.name / "training.json").read_text())["tried"]
    best, least = recipe, math.inf
    for changes, result in zip(recipe.trials, tried, strict=True):
        candidate = dataclasses.replace(best, **changes)
        assert training.told(candidate, recipe).items() <= result.items()
        if result["validation"] < least:
            best, least = candidate, result["validation"]
    assert best == recipe


@pytest.mark.parametrize("shape", [(2, 64, 64), (3, 128, 512), (2, 344, 128)])
def test_orthogonal_keeps_directions_and_draws_singular_values_near_one(shape):
    drawn = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    left, _, right = torch.linalg.svd(drawn, full_matrices=False)
    matrices = left * torch.linspace(1.0, 0.1, min(shape[1:])) @ right
    found = optimizers.orthogonal(matrices)
    values = torch.linalg.svdvals(found)
    assert found.shape == shape and values.min() > 0.6 and values.max() < 1.2, (values.min(), values.max())
    # U' X V is nearly diagonal where X is U S V'.
    inside = left.mT @ found @ right.mT
    across = inside - torch.diag_embed(inside.diagonal(dim1=1, dim2=2))
    assert across.abs().max() < 0.05


def test_muon_trains_the_matrices_of_blocks_and_nothing_else():
    recipe = dataclasses.replace(ENCODER, muon=0.01)
    model = recipe.model(50)
    adam, muon = optimizers.Optimizers(model, recipe, "cpu").all
    of_muon = {id(parameter) for group in muon.groups for parameter in group}
    of_adam = {id(parameter) for group in adam.param_groups for parameter in group["params"]}
    named = {id(parameter): name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert of_muon | of_adam == set(named) and not of_muon & of_adam
    # Queries, keys, values, outputs and the two of the feed-forward, in 6 layers.
    assert len(of_muon) == 36 and all(".layer." in named[parameter] for parameter in of_muon)


@pytest.mark.parametrize("shown", [1.0, 0.8])
def test_every_window_hides_as_many_tokens_and_no_marks(shown):
    recipe = dataclasses.replace(ENCODER, shown=shown)
    tokenizer, windows = tokenizer_of(recipe), windows_of(recipe, 32)
    marks = [tokenizer.token_to_id(token) for token in data.SPECIALS]
    ids, _, _, guessed, wanted = lessons.masked(recipe, tokenizer, "cpu")(windows)
    given = windows[:, :-1]
    hidden = round(recipe.guessed * recipe.positions)
    assert guessed.shape == (32, hidden) and all(len(set(row)) == hidden for row in guessed.tolist())
    assert not torch.isin(wanted, torch.tensor(marks)).any()
    assert torch.equal(wanted, given.gather(1, guessed))
    others = torch.ones_like(given, dtype=torch.bool).scatter(1, guessed, False)
    assert torch.equal(ids[others], given[others]), "nothing else changes"
    at = ids.gather(1, guessed)
    masks = (at == tokenizer.token_to_id("[MASK]")).float().mean()
    # Of 1,024 draws: within four standard errors.
    assert abs(masks - shown) <= 4 * math.sqrt(shown * (1 - shown) / at.numel())
    assert shown < 1 or masks == 1
    kept = (at == wanted).float().mean()
    assert abs(kept - (1 - shown) / 2) <= 4 * math.sqrt((1 - shown) / 2 / at.numel())


def test_masked_losses_are_those_of_one_token_after_another():
    sentences = data.read_lines(data.TEST)[:6]
    tokenizer = tokenizer_of(ENCODER)
    model = ENCODER.model(tokenizer.get_vocab_size()).eval()
    mask, nats = tokenizer.token_to_id("[MASK]"), []
    with torch.no_grad():
        for sentence in sentences:
            ids = tokenizer.encode(sentence).ids
            for place in range(1, len(ids) - 1):
                given = torch.tensor([ids])
                given[0, place] = mask
                nats.append(-model(input_ids=given).logits[0, place].double().log_softmax(0)[ids[place]].item())
    losses = evaluate.losses_of(model, tokenizer, sentences)
    assert losses["nats_per_masked_token"] == pytest.approx(sum(nats) / len(nats), abs=1e-5)


def test_the_rate_rises_to_one_and_ends_at_zero():
    recipe = dataclasses.replace(ENCODER, warm_up=10)
    factors = [training.factor_of(recipe, step, 101) for step in range(102)]
    assert factors[0] == 0.1 and factors[9] == factors[10] == 1.0 and factors[101] == pytest.approx(0.0)
    assert all(later < earlier for earlier, later in zip(factors[10:], factors[11:]))


def work(name: str, turn: turns.Turn, plain: bool) -> None:
    """A worker: `once` fails unless it is plain, `never` fails always."""
    turn.take(turns.TRIALS)
    turn.give_back()
    if name == "never" or (name == "once" and not plain):
        sys.exit(1)
    assert turn.take(turns.TRAINING) > 0
    turn.give_back()


def test_who_fails_is_started_once_more_and_then_named(capfd):
    assert turns.share({"well": 1.0, "once": 1.0, "never": 1.0}, 600, work) == ["never"]
    said = capfd.readouterr().out
    assert "once failed; once more, plain" in said and "never failed\n" in said and "well failed" not in said
    # Trials have a third of what is left, and a model its share of that; the last training has all that is left.
    trials = [(int(part), int(left)) for part, left in re.findall(r"trials, (\d+) of (\d+) s", said)]
    assert len(trials) == 5 and all(abs(part - left / 9) <= 1 for part, left in trials)
    last, left = re.findall(r"training, (\d+) of (\d+) s", said)[-1]
    assert last == left
