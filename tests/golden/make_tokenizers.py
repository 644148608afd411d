"""Writes tokenizers.json: small tokenizers of Hugging Face's package, texts, and their tokens.

python3 tests/golden/make_tokenizers.py
"""

import json
from pathlib import Path

import tokenizers as hf

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEXTS = [
    "",
    " ",
    "The quick brown fox doesn't jump over 12345 lazy dogs; it's 3.14 metres.",
    "  two blanks,\ttab\r\nnew line\n\n\n  and   an end  ",
    "Ünïcödé İstanbul ΣΑΣ ﬁ Å ẞ straße Ǆ",
    "日本語のテキスト、中文字符 한국어 คำไทย עברית العربية हिन्दी",
    "🙂👩‍👩‍👧‍👦 ❤️ \u00a0\u3000\u2003x\ufeff\u200b",
    "I'LL WE'VE '\u017fx 'S'T don't'd",
    "<|endoftext|>a<|endoftext|> b [CLS]x[MASK] [unk]",
    "\x00\x01\x7f\x85 \ufffd a\u0301b\u0300",
    "supercalifragilisticexpialidocious" * 4,
    "no. wait ! really ? it 's , don 't",
]


def byte_level(pattern=None, prefix_space=False):
    tokenizer = hf.Tokenizer(hf.models.BPE())
    words = hf.pre_tokenizers.ByteLevel(add_prefix_space=prefix_space, use_regex=pattern is None)
    if pattern is not None:
        split = hf.pre_tokenizers.Split(hf.Regex(pattern), "isolated")
        words = hf.pre_tokenizers.Sequence([split, words])
    tokenizer.pre_tokenizer = words
    tokenizer.decoder = hf.decoders.ByteLevel()
    trainer = hf.trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=hf.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    return tokenizer


def wordpiece(lowercase):
    letters = sorted(set("".join(TEXTS)) - set(" \n\t\r"))
    words = ["the", "quick", "Ist", "ist", "##an", "##bul", "and", "##s", "stra", "##ße", "real"]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *words]
    tokens += [f"##{c}" for c in letters if c.isalpha() and c not in "xQ"]
    vocab = {t: i for i, t in enumerate(dict.fromkeys(tokens))}
    tokenizer = hf.Tokenizer(hf.models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = hf.normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = hf.pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = hf.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.decoder = hf.decoders.WordPiece()
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    return tokenizer


def main():
    made = {
        "gpt2": byte_level(),
        "prefix space": byte_level(prefix_space=True),
        "llama3": byte_level(LLAMA3),
        "bert": wordpiece(True),
        "bert cased": wordpiece(False),
    }
    golden = {"texts": TEXTS}
    for name, tokenizer in made.items():
        tokens = [tokenizer.encode(text).ids for text in TEXTS]
        golden[name] = {
            "file": json.loads(tokenizer.to_str()),
            "tokens": tokens,
            "texts": [tokenizer.decode(ids) for ids in tokens],
        }
    lines = [f"{json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in golden.items()]
    Path(__file__).with_name("tokenizers.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
