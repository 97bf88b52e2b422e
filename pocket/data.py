"""Sentences in, shuffled windows of token ids out; and the tokenizers, trained on the same sentences."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

CORPUS = Path(__file__).resolve().parent / "corpus"
SAMPLE = CORPUS / "sample.txt.gz"
#: Sentences that no model is trained on: by the loss on the first, recipes are chosen; the loss on the second is told.
HELD_OUT = CORPUS / "held-out.txt"
TEST = CORPUS / "test.txt"

#: The start of a sentence, and so the end of the one before.
BOUNDARY = "<|endoftext|>"
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def read_lines(path: Path) -> list[str]:
    opened = gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else open(path, encoding="utf-8")
    with opened as lines:
        return [line.rstrip("\n") for line in lines]


def training_sentences(path: Path) -> list[str]:
    """All sentences but the held-out and the test ones."""
    others = {*read_lines(HELD_OUT), *read_lines(TEST)}
    return [line for line in read_lines(path) if line and line not in others]


def train_tokenizer(kind: str, vocabulary: int, sentences: list[str]) -> Tokenizer:
    """`bpe`: byte-level BPE. `bytes`: the same without merges. `wordpiece`: lower-cased, marks its text with [CLS] and [SEP]."""
    if kind == "wordpiece":
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = decoders.WordPiece()
        trainer = trainers.WordPieceTrainer(vocab_size=vocabulary, special_tokens=SPECIALS, show_progress=False)
        tokenizer.train_from_iterator(sentences, trainer)
        ids = [(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
        pair = "[CLS] $A [SEP] $B:1 [SEP]:1"
        tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair=pair, special_tokens=ids)
        return tokenizer
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    size = vocabulary if kind == "bpe" else 1 + len(alphabet)
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=[BOUNDARY], initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(sentences, trainer)
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, kind: str, positions: int, folder: Path) -> None:
    if kind == "wordpiece":
        names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
    else:
        names = {"bos_token": BOUNDARY, "eos_token": BOUNDARY}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=positions, **names)
    fast.save_pretrained(folder)


def encode(tokenizer: Tokenizer, sentences: list[str]) -> list[numpy.ndarray]:
    """The ids of every sentence, without those that mark its ends."""
    encoded = []
    for first in range(0, len(sentences), 50_000):
        some = tokenizer.encode_batch_fast(sentences[first : first + 50_000], add_special_tokens=False)
        encoded += [numpy.array(encoding.ids, numpy.uint16) for encoding in some]
    return encoded


class Windows:
    """Windows of `length` + 1 ids over all sentences, shuffled anew every epoch and laid end to end.

    Every sentence starts with `start` and, where there is an `end`, ends with it. What a window cuts off begins the next
    one, so that texts which start in the middle are seen as well.
    """

    def __init__(self, encoded: list[numpy.ndarray], start: int, end: int | None, length: int, seed: int, device: str):
        head, tail = [numpy.array([start], numpy.uint16)], [] if end is None else [numpy.array([end], numpy.uint16)]
        lengths = torch.tensor([1 + len(ids) + len(tail) for ids in encoded])
        flat = numpy.concatenate([piece for ids in encoded for piece in (*head, ids, *tail)])
        self.ids = torch.from_numpy(flat.astype(numpy.int32)).to(device)
        self.lengths = lengths.to(device)
        self.starts = (lengths.cumsum(0) - lengths).to(device)
        self.length, self.seed = length, seed
        self.restart()

    def restart(self) -> None:
        self.generator = torch.Generator().manual_seed(self.seed)
        self.stream, self.at = self.ids[:0], 0

    def batch(self, rows: int) -> torch.Tensor:
        """[rows, length + 1]; the last id of a row is the first of the next."""
        need = rows * self.length + 1
        while self.at + need > len(self.stream):
            self.stream = torch.cat([self.stream[self.at :], self._shuffled()])
            self.at = 0
        piece = self.stream[self.at : self.at + need]
        self.at += rows * self.length
        return piece.unfold(0, self.length + 1, self.length).long()

    def _shuffled(self) -> torch.Tensor:
        order = torch.randperm(len(self.lengths), generator=self.generator).to(self.ids.device)
        lengths = self.lengths[order]
        shift = self.starts[order] - (lengths.cumsum(0) - lengths)
        return self.ids[torch.arange(len(self.ids), device=self.ids.device) + shift.repeat_interleave(lengths)]


def places(ids: torch.Tensor, start: int) -> tuple[torch.Tensor, torch.Tensor]:
    """For windows of ids: each token's place in its own sentence, and which tokens belong to the same one."""
    begins = ids == start
    at = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
    position = at - torch.where(begins, at, 0).cummax(dim=1).values
    sentence = begins.cumsum(dim=1)
    return position, sentence[:, :, None] == sentence[:, None, :]
