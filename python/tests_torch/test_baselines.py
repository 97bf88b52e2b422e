"""The counting models that pocket models are compared with, and the cards that tell of them."""

import itertools
import json
import sys
from pathlib import Path

import numpy
import pytest

POCKET = Path(__file__).resolve().parents[2] / "pocket"
sys.path.insert(0, str(POCKET))
import baselines  # noqa: E402
import card  # noqa: E402

WORDS = 7
START = 0


def sentences(seed: int, count: int) -> list[list[int]]:
    """Random sentences in which some words follow others."""
    random = numpy.random.default_rng(seed)
    follows = random.dirichlet([0.3] * (WORDS - 1), size=WORDS)

    def sentence() -> list[int]:
        words = [START]
        for _ in range(random.integers(1, 9)):
            words.append(1 + int(random.choice(WORDS - 1, p=follows[words[-1]])))
        return words[1:]

    return [sentence() for _ in range(count)]


@pytest.mark.parametrize("order", [2, 3, 5])
def test_probabilities_of_all_words_sum_to_one(order):
    model = baselines.KneserNey(baselines.Text(sentences(1, 300), START), WORDS, order)
    for before in [[], [3], [1, 2], [6, 6, 6, 6, 6], [2, 4, 1, 5]]:
        texts = baselines.Text([[*before, word] for word in range(1, WORDS)], START)
        last = numpy.append(texts.begins[1:], len(texts.ids)) - 1 - numpy.arange(1, WORDS)
        assert model.probabilities(texts)[last].sum() == pytest.approx(1.0, abs=1e-12)


def test_a_bigram_is_its_definition():
    """Against the formula, word by word."""
    text = sentences(2, 200)
    pairs = [pair for words in text for pair in itertools.pairwise([START, *words])]
    discounts = baselines.discounts_of(numpy.unique(pairs, axis=0, return_counts=True)[1])
    kinds = {word: len({left for left, right in pairs if right == word}) for word in range(1, WORDS)}
    alone = baselines.discounts_of(numpy.array([kind for kind in kinds.values() if kind]))

    def unigram(word: int) -> float:
        taken = sum(alone[min(kind, 3)] for kind in kinds.values())
        return (kinds[word] - alone[min(kinds[word], 3)] + taken / (WORDS - 1)) / sum(kinds.values())

    def bigram(left: int, word: int) -> float:
        counts = [pairs.count((left, other)) for other in range(1, WORDS)]
        taken = sum(discounts[min(count, 3)] for count in counts)
        return (counts[word - 1] - discounts[min(counts[word - 1], 3)] + taken * unigram(word)) / sum(counts)

    asked = sentences(2, 220)[200:]
    wanted = [bigram(left, word) for words in asked for left, word in itertools.pairwise([START, *words])]
    model = baselines.KneserNey(baselines.Text(text, START), WORDS, 2)
    numpy.testing.assert_allclose(model.probabilities(baselines.Text(asked, START)), wanted, rtol=1e-12)


def test_a_token_between_two_has_a_distribution_that_follows_the_counts():
    end, text = WORDS, sentences(4, 700)
    model = baselines.Neighbours(baselines.Text(text[:500], START, end), WORDS + 1)
    for left, right in itertools.product(range(WORDS), range(1, WORDS + 1)):
        shares = model.distribution(left, right)
        assert shares.min() >= 0 and shares.sum() == pytest.approx(1.0, abs=1e-12)
    asked = baselines.Text(text[500:], START, end)
    places = numpy.flatnonzero((asked.places > 0) & (asked.ids != end))
    loss = -numpy.log(model.probabilities(asked, places)).mean()
    assert loss < -numpy.log(model.alone[asked.ids[places]]).mean() - 0.1


@pytest.mark.parametrize("folder", sorted(POCKET.glob("pocket-*")), ids=lambda folder: folder.name)
def test_a_card_tells_what_is_known_of_the_training(folder):
    facts = json.loads((folder / "training.json").read_text())
    assert "baselines" in facts and (folder / "README.md").read_text() == card.text(facts)
