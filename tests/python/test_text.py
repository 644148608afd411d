"""Tokenizers against committed tokens of Hugging Face's package; files and their errors."""

import json
import threading
from pathlib import Path

import mica
import pytest
from mica.text import Tokenizer

GOLDEN = json.loads(
    (Path(__file__).resolve().parents[1] / "golden" / "tokenizers.json").read_text()
)
NAMES = [name for name in GOLDEN if name != "texts"]
TEXTS = GOLDEN["texts"]


def made(name):
    return Tokenizer.from_json(json.dumps(GOLDEN[name]["file"]))


@pytest.mark.parametrize("name", NAMES)
def test_tokens_and_texts(name):
    tokenizer, golden = made(name), GOLDEN[name]
    for text, tokens, decoded in zip(TEXTS, golden["tokens"], golden["texts"], strict=True):
        assert tokenizer.encode(text) == tokens, text
        assert tokenizer.decode(tokens) == decoded
    assert tokenizer.encode_batch(TEXTS) == golden["tokens"]


@pytest.mark.parametrize("name", NAMES)
def test_saved_is_the_same(name, tmp_path):
    tokenizer = made(name)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    again = Tokenizer.load(str(tmp_path))
    assert again.to_json() == tokenizer.to_json()
    assert [again.encode(t) for t in TEXTS] == GOLDEN[name]["tokens"]


def test_words_come_back():
    tokenizer = made("gpt2")
    for text in TEXTS:
        tokens = tokenizer.encode(text)
        assert tokenizer.decode(tokens, skip_special=False) == text
    assert len(tokenizer) == 400
    end = tokenizer.token_to_id("<|endoftext|>")
    assert tokenizer.id_to_token(end) == "<|endoftext|>"
    assert tokenizer.token_to_id("no such token") is None
    assert tokenizer.decode([end, *tokenizer.encode("a"), end]) == "a"


def test_training_finds_what_hugging_face_finds():
    ours = Tokenizer.train_bpe(TEXTS, vocab_size=400, special_tokens=["<|endoftext|>"])
    model = json.loads(ours.to_json())["model"]
    assert model["vocab"] == GOLDEN["gpt2"]["file"]["model"]["vocab"]
    assert model["merges"] == GOLDEN["gpt2"]["file"]["model"]["merges"]
    rare = Tokenizer.train_bpe(["ab ab cd"], vocab_size=300, min_frequency=2)
    # " " and "a" are neighbours once only.
    assert json.loads(rare.to_json())["model"]["merges"] == ["a b"]
    with pytest.raises(mica.Error, match="256 bytes, 256 tokens, got 10"):
        Tokenizer.train_bpe(["a"], vocab_size=10)


def test_older_files(tmp_path):
    model = GOLDEN["gpt2"]["file"]["model"]
    (tmp_path / "vocab.json").write_text(json.dumps(model["vocab"]))
    (tmp_path / "merges.txt").write_text("\n".join(["#version: 0.2", *model["merges"], ""]))
    tokenizer = Tokenizer.load(str(tmp_path))
    assert [tokenizer.encode(t) for t in TEXTS] == GOLDEN["gpt2"]["tokens"]
    vocab = GOLDEN["bert"]["file"]["model"]["vocab"]
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(sorted(vocab, key=vocab.get)) + "\n", newline="")
    assert [Tokenizer.load(str(path)).encode(t) for t in TEXTS] == GOLDEN["bert"]["tokens"]


def with_added(**options):
    file = json.loads(json.dumps(GOLDEN["gpt2"]["file"]))
    token = {"id": 400, "content": "<x>", "special": True, "normalized": False}
    file["added_tokens"].append(token | options)
    return Tokenizer.from_json(json.dumps(file))


def test_added_tokens():
    plain = with_added()
    a, b = plain.encode("a"), plain.encode("b")
    assert plain.encode("a<x>b") == [*a, 400, *b]
    assert plain.encode("a <x> b") == [*plain.encode("a "), 400, *plain.encode(" b")]
    strip = with_added(lstrip=True, rstrip=True)
    assert strip.encode("a \n<x> \t b") == [*a, 400, *b]
    word = with_added(single_word=True)
    assert 400 not in word.encode("a<x>b")
    assert word.encode("a <x>.")[-2] == 400


def test_threads_share_one():
    tokenizer, wrong = made("llama3"), []

    def work():
        for _ in range(50):
            if [tokenizer.encode(t) for t in TEXTS] != GOLDEN["llama3"]["tokens"]:
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def edited(name, **parts):
    return json.dumps(GOLDEN[name]["file"] | parts)


def model_with(name, **parts):
    return edited(name, model=GOLDEN[name]["file"]["model"] | parts)


@pytest.mark.parametrize(
    ("file", "error", "message"),
    [
        ("{", mica.IoError, "parse error"),
        ("[]", mica.IoError, 'a "model"'),
        (edited("gpt2", model={"type": "Unigram", "vocab": []}), mica.Unsupported, "'Unigram'"),
        (model_with("gpt2", vocab={}), mica.IoError, "got 0 tokens"),
        (model_with("gpt2", vocab={"a": -1}), mica.IoError, "negative"),
        (model_with("gpt2", vocab={"a": 10**9}), mica.IoError, "1000000000"),
        (model_with("gpt2", vocab={"a": "b"}), mica.IoError, "no whole number"),
        (model_with("gpt2", vocab={"a": 0, "b": 0}), mica.IoError, "another's"),
        (model_with("gpt2", merges=["ab"]), mica.IoError, "two tokens with a blank"),
        (model_with("gpt2", merges=["a \u2603"]), mica.IoError, "which is no token"),
        (model_with("gpt2", byte_fallback=True), mica.Unsupported, "byte_fallback"),
        (edited("gpt2", normalizer={"type": "NFC"}), mica.Unsupported, "'NFC'"),
        (edited("gpt2", pre_tokenizer={"type": "Metaspace"}), mica.Unsupported, "'Metaspace'"),
        (edited("gpt2", pre_tokenizer=None), mica.Unsupported, "bytes"),
        (model_with("bert", unk_token="?!"), mica.IoError, "'\\?!' for unknown words"),
        (edited("bert", pre_tokenizer={"type": "Split"}), mica.Unsupported, "'Split'"),
        (
            edited("bert", post_processor={"type": "BertProcessing", "sep": ["x", 99999]}),
            mica.IoError,
            "cls",
        ),
    ],
)
def test_errors_of_files(file, error, message):
    with pytest.raises(error, match=message) as raised:
        Tokenizer.from_json(file, name="own.json")
    assert "own.json" in str(raised.value)


def test_errors(tmp_path):
    with pytest.raises(mica.IoError, match=r"expected tokenizer\.json"):
        Tokenizer.load(str(tmp_path))
    with pytest.raises(mica.IoError, match=r"nothing\.json"):
        Tokenizer.load(str(tmp_path / "nothing.json"))
    with pytest.raises(IndexError, match=r"token 400 is not in \[0, 400\)"):
        made("gpt2").decode([400])
    with pytest.raises(mica.IoError, match="UTF-8"):
        (tmp_path / "vocab.txt").write_bytes(b"[UNK]\n\xff\n")
        Tokenizer.load(str(tmp_path / "vocab.txt"))
    partial = Tokenizer.from_json(model_with("gpt2", vocab={"a": 0}, merges=[]))
    with pytest.raises(mica.Error, match="no token for the byte 98"):
        partial.encode("ab")


@pytest.mark.parametrize(("vocabulary", "width"), [(65536, 2), (65537, 4)])
def test_token_files(vocabulary, width, tmp_path):
    path = tmp_path / "data.tokens"
    tokens = [0, 1, vocabulary - 1, 5, 7, 7, 2]
    mica.text.write_token_file(str(path), vocabulary, tokens)
    assert path.stat().st_size == 16 + width * len(tokens)
    file = mica.text.TokenFile.open(str(path))
    assert len(file) == 7
    assert file.read(1, 3).tolist() == tokens[1:4]
    batch = file.batch([0, 4], 3)
    assert batch.dtype is mica.int64
    assert batch.tolist() == [tokens[:3], tokens[4:]]
    assert file.batch([], 3).shape == (0, 3)
    for start, count in ((5, 3), (-1, 2), (0, 8), (2**62, 2)):
        with pytest.raises(IndexError, match="are not among 7"):
            file.read(start, count)
    with pytest.raises(IndexError, match="is not in"):
        mica.text.write_token_file(str(path), vocabulary, [vocabulary])
    assert len(mica.text.TokenFile.open(str(path))) == 7  # what was there stays


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"", "is no file of tokens"),
        (b"micatok1\x02\0\0\0\0\0\0", "is no file of tokens"),
        (b"micatok2\x02\0\0\0\0\0\0\0ab", "is no file of tokens"),
        (b"micatok1\x03\0\0\0\0\0\0\0abc", "is no file of tokens"),
        (b"micatok1\x02\0\0\0\x01\0\0\0ab", "is no file of tokens"),
        (b"micatok1\x04\0\0\0\0\0\0\0abc", "ends within a token"),
    ],
)
def test_files_that_hold_no_tokens(contents, message, tmp_path):
    path = tmp_path / "wrong.tokens"
    path.write_bytes(contents)
    with pytest.raises(mica.IoError, match=message) as raised:
        mica.text.TokenFile.open(str(path))
    assert str(path) in str(raised.value)
