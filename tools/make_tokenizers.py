"""Makes the tiny tokenizers of crates/layerscope-corpus/tests/data and the ids the reference library gives for its sentences.

Run without arguments for the tiny ones. With the folder of a published tokenizer as argument, its ids of the same sentences are
written too (golden-minilm.json is all-MiniLM-L6-v2's; that tokenizer is not in the repository, so its test runs only where
LAYERSCOPE_MINILM names its folder).
"""

import json
import pathlib
import sys

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

DATA = pathlib.Path(__file__).parent.parent / "crates/layerscope-corpus/tests/data"
SENTENCES = (DATA / "sentences.txt").read_text(encoding="utf-8").split("\n")[:-1]


def wordpiece():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(SENTENCES, trainers.WordPieceTrainer(vocab_size=260, special_tokens=specials, show_progress=False))
    cls, sep = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", cls), ("[SEP]", sep)]
    )
    # As all-MiniLM-L6-v2 has them: both must be switched off.
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=8)
    return tokenizer, {"cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}


def byte_level():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<|endoftext|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    end = {"__type": "AddedToken", "content": "<|endoftext|>", "special": True}
    return tokenizer, {"bos_token": end, "eos_token": end, "unk_token": end}


def metaspace():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    specials = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(vocab_size=220, special_tokens=specials, unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(SENTENCES, trainer)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    start, end = tokenizer.token_to_id("<s>"), tokenizer.token_to_id("</s>")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", start), ("</s>", end)]
    )
    return tokenizer, {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>"}


def prepended():
    """The older form of sentence-piece BPE: no pre-tokenizer, a normalizer writes the spaces, bytes as fallback, BOS only."""
    words = sorted({"▁" + word for word in " ".join(SENTENCES).split() if word.isascii() and word.isalpha()})[:60]
    characters = sorted({character for word in words for character in word} | set("abcdefghijklmnopqrstuvwxyz"))
    vocabulary = {"<unk>": 0, "<s>": 1, "</s>": 2}
    for piece in [f"<0x{byte:02X}>" for byte in range(256)] + characters:
        vocabulary.setdefault(piece, len(vocabulary))
    merges = []
    for word in words:
        for length in range(2, len(word) + 1):
            pair = (word[: length - 1], word[length - 1])
            if pair not in merges:
                merges.append(pair)
            vocabulary.setdefault(word[:length], len(vocabulary))
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    return tokenizer, {"bos_token": "<s>", "eos_token": "</s>"}


def golden(tokenizer):
    tokenizer.no_truncation()
    tokenizer.no_padding()
    encodings = [tokenizer.encode(sentence) for sentence in SENTENCES]
    return {"ids": [encoding.ids for encoding in encodings], "special": [encoding.special_tokens_mask for encoding in encodings]}


def write(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


for make in [wordpiece, byte_level, metaspace, prepended]:
    folder = DATA / make.__name__.replace("_", "-")
    folder.mkdir(exist_ok=True)
    tokenizer, config = make()
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    write(folder / "tokenizer_config.json", config)
    write(folder / "golden.json", golden(Tokenizer.from_file(str(folder / "tokenizer.json"))))
if len(sys.argv) > 1:
    write(DATA / "golden-minilm.json", golden(Tokenizer.from_file(str(pathlib.Path(sys.argv[1]) / "tokenizer.json"))))
