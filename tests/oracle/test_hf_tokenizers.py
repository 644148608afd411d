"""Tokenizers beside Hugging Face's: 1 MB of mixed text, every character, files both ways, training.

    PYTHONPATH=build/release/python python -m pytest tests/oracle/test_hf_tokenizers.py

Skipped where its package tokenizers is not installed. MICA_BERT_TOKENIZER may name the
tokenizer.json of a BERT, which is compared too.
"""

import json
import os
import random
import unicodedata
from pathlib import Path

import pytest
from mica.text import Tokenizer

hf = pytest.importorskip("tokenizers", reason="Hugging Face's tokenizers are not installed")

ROOT = Path(__file__).resolve().parents[2]
SIZE = 1_000_000
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SCRIPTS = [
    (0x41, 0x7B),
    (0xC0, 0x250),
    (0x300, 0x370),
    (0x370, 0x400),
    (0x400, 0x530),
    (0x5D0, 0x5EB),
    (0x620, 0x6D4),
    (0x900, 0x980),
    (0xE00, 0xE5C),
    (0x1100, 0x1200),
    (0x1E00, 0x2000),
    (0x2000, 0x2070),
    (0x2070, 0x2200),
    (0x3040, 0x3100),
    (0x4E00, 0x9FFF),
    (0xAC00, 0xD7A4),
    (0xF900, 0xFB00),
    (0xFE00, 0xFFF0),
    (0x1D400, 0x1D800),
    (0x1F300, 0x1F700),
    (0x1F900, 0x1FA00),
    (0x20000, 0x20100),
]
SPACES = [
    " ",
    " ",
    " ",
    "  ",
    "   ",
    "\n",
    "\n\n",
    "\r\n",
    "\t",
    " \n ",
    "\u00a0",
    "\u3000",
    "\u2003",
]
PIECES = [
    "don't",
    "I'LL",
    "we've",
    "'s",
    "'S",
    "'\u017f",
    "42",
    "1234567",
    "3.14",
    "--",
    "...",
    "'",
]
PIECES += [
    "[CLS]",
    "[MASK]",
    "<|endoftext|>",
    "\u200d",
    "\ufe0f",
    "\U0001f468\u200d\U0001f469",
    "\x00",
]


def mixed_text(seed=0, size=SIZE):
    """Documents of this project, words of many scripts, numbers, marks and white space."""
    rng = random.Random(seed)
    prose = [p.read_text() for p in sorted((ROOT / "docs").glob("*.md"))]
    words = " ".join(prose).split(" ")
    parts, length = [], 0
    while length < size:
        kind = rng.random()
        if kind < 0.45:
            piece = rng.choice(words)
        elif kind < 0.8:
            first, last = rng.choice(SCRIPTS)
            piece = "".join(chr(rng.randrange(first, last)) for _ in range(rng.randint(1, 8)))
        else:
            piece = rng.choice(PIECES)
        piece += rng.choice(SPACES) if rng.random() < 0.9 else ""
        parts.append(piece)
        length += len(piece.encode())
    return "".join(parts)


CHANGED = "\u166d\u1734\u1885\u1886"  # categories that Unicode changed since their tables


def is_assigned(c):
    """By the Unicode that both know; tables of later characters may differ."""
    known = unicodedata.ucd_3_2_0.category(chr(c)) != "Cn"
    return known and not 0xD800 <= c < 0xE000 and chr(c) not in CHANGED


CHARACTERS = [chr(c) for c in range(0x110000) if is_assigned(c)]


def byte_level(pattern=None, prefix_space=False):
    tokenizer = hf.Tokenizer(hf.models.BPE())
    words = hf.pre_tokenizers.ByteLevel(add_prefix_space=prefix_space, use_regex=pattern is None)
    if pattern is not None:
        split = hf.pre_tokenizers.Split(hf.Regex(pattern), "isolated")
        words = hf.pre_tokenizers.Sequence([split, words])
    tokenizer.pre_tokenizer = words
    tokenizer.decoder = hf.decoders.ByteLevel()
    return tokenizer


def trained(tokenizer, text, size=4000):
    trainer = hf.trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=hf.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([text], trainer)
    return tokenizer


TEXT = mixed_text()
BPES = {"gpt2": {}, "prefix space": {"prefix_space": True}, "llama3": {"pattern": LLAMA3}}


@pytest.fixture(scope="module", params=BPES)
def bpe(request):
    theirs = trained(byte_level(**BPES[request.param]), TEXT[:300_000])
    return Tokenizer.from_json(theirs.to_str()), theirs


def test_bpe_of_mixed_text(bpe):
    ours, theirs = bpe
    assert len(ours) == theirs.get_vocab_size()
    tokens = theirs.encode(TEXT).ids
    assert ours.encode(TEXT) == tokens
    assert ours.decode(tokens) == theirs.decode(tokens)
    assert ours.decode(tokens, skip_special=False) == theirs.decode(
        tokens, skip_special_tokens=False
    )


def test_bpe_of_every_character(bpe):
    ours, theirs = bpe
    for around in ("a{}b", " {} ", "1{}{}2 ", "{}\n"):
        text = "".join(around.replace("{}", c) for c in CHARACTERS)
        assert ours.encode(text) == theirs.encode(text).ids, around


def test_bpe_of_short_texts(bpe):
    ours, theirs = bpe
    rng = random.Random(1)
    for _ in range(3000):
        at = rng.randrange(len(TEXT) - 50)
        text = TEXT[at : at + rng.randrange(50)]
        tokens = theirs.encode(text).ids
        assert ours.encode(text) == tokens, repr(text)
        some = [rng.randrange(len(ours)) for _ in range(rng.randrange(12))]
        assert ours.decode(some) == theirs.decode(some), some


def test_files_both_ways(bpe, tmp_path):
    ours, _ = bpe
    path = tmp_path / "tokenizer.json"
    ours.save(str(path))
    text = mixed_text(2, 50_000)
    assert hf.Tokenizer.from_file(str(path)).encode(text).ids == ours.encode(text)
    assert Tokenizer.load(str(tmp_path)).encode(text) == ours.encode(text)


def test_vocab_and_merges(tmp_path):
    theirs = trained(byte_level(), TEXT[:100_000], 1000)
    theirs.model.save(str(tmp_path))
    text = mixed_text(3, 50_000)
    ours = Tokenizer.load(str(tmp_path))
    assert ours.encode(text) == theirs.encode(text).ids


@pytest.mark.parametrize("seed", range(3))
def test_training_finds_the_same(seed):
    text = mixed_text(seed, 100_000)
    theirs = json.loads(trained(byte_level(), text, 2000).to_str())["model"]
    ours = Tokenizer.train_bpe([text], vocab_size=2000, special_tokens=["<|endoftext|>"])
    model = json.loads(ours.to_json())["model"]
    assert model["vocab"] == theirs["vocab"]
    merges = [m if isinstance(m, str) else " ".join(m) for m in theirs["merges"]]
    assert model["merges"] == merges


def bert(lowercase, strip=None):
    words = sorted({w.lower() for w in TEXT[:200_000].split() if w.isalpha()})[:3000]
    letters = sorted(set(TEXT[:200_000]) - set(" \n\t\r"))
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters]
    tokens += [w for w in words if len(w) > 1] + [f"##{c}" for c in letters]
    vocab = {t: i for i, t in enumerate(dict.fromkeys(tokens))}
    tokenizer = hf.Tokenizer(hf.models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = hf.normalizers.BertNormalizer(lowercase=lowercase, strip_accents=strip)
    tokenizer.pre_tokenizer = hf.pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = hf.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.decoder = hf.decoders.WordPiece()
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    return tokenizer


def berts():
    yield "lower case", bert(True)
    yield "as it is", bert(False)
    yield "lower case with accents", bert(True, False)
    if path := os.environ.get("MICA_BERT_TOKENIZER"):
        real = hf.Tokenizer.from_file(path)
        real.no_truncation()
        real.no_padding()
        yield "real", real


@pytest.fixture(scope="module", params=list(berts()), ids=lambda p: p[0])
def wordpiece(request):
    theirs = request.param[1]
    return Tokenizer.from_json(theirs.to_str()), theirs


def test_wordpiece_of_mixed_text(wordpiece):
    ours, theirs = wordpiece
    tokens = theirs.encode(TEXT).ids
    assert ours.encode(TEXT) == tokens
    assert ours.decode(tokens) == theirs.decode(tokens)
    assert ours.encode(TEXT, special=False) == theirs.encode(TEXT, add_special_tokens=False).ids


def test_wordpiece_of_every_character(wordpiece):
    ours, theirs = wordpiece
    wrong = []
    for c in CHARACTERS:
        for around in (f"a{c}b", f"{c} "):
            if ours.encode(around) != theirs.encode(around).ids:
                wrong.append(hex(ord(c)))
    assert wrong == []


def test_vocab_txt(tmp_path):
    theirs = bert(True)
    vocab = theirs.get_vocab()
    lines = "\n".join(sorted(vocab, key=vocab.get))
    (tmp_path / "vocab.txt").write_text(lines)
    ours = Tokenizer.load(str(tmp_path / "vocab.txt"))
    text = mixed_text(4, 50_000)
    assert ours.encode(text) == theirs.encode(text).ids
