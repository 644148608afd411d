"""Recurrent layers: PyTorch's values, states that go on, lengths, packed sequences, compiled."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import compare_recurrent as compare
import mica
import numpy as np
import pytest
from mica import nn
from mica.nn.utils import rnn

CORPUS = Path(__file__).resolve().parents[2] / "data" / "kjv.txt"
EXPECTED = compare.read(compare.GOLDEN) if compare.GOLDEN.exists() else {}


@pytest.mark.skipif(not EXPECTED, reason="the golden files are not here")
@pytest.mark.parametrize("kernel", ["gemm", "reference"])
def test_values_and_gradients_are_pytorchs(kernel: str) -> None:
    mica.force_kernel("recurrent", kernel)
    mica.force_kernel("recurrent_grad", kernel)
    try:
        for seed, values in EXPECTED.items():
            c = compare.configuration(seed)
            assert compare.largest_error(values, compare.by_mica(c)) < 1e-11, c
    finally:
        mica.force_kernel("recurrent", "")
        mica.force_kernel("recurrent_grad", "")


def test_keys_are_pytorchs() -> None:
    lstm = nn.LSTM(3, 4, num_layers=2, bidirectional=True, proj_size=2)
    names = ["weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"]
    ends = ["l0", "l0_reverse", "l1", "l1_reverse"]
    assert list(lstm.state_dict()) == [f"{name}_{end}" for end in ends for name in names]
    assert lstm.weight_ih_l1.shape == (16, 4)
    assert list(nn.GRUCell(3, 4).state_dict()) == [
        "weight_ih",
        "weight_hh",
        "bias_ih",
        "bias_hh",
    ]
    assert repr(nn.RNN(3, 4)).startswith("RNN(")


def array(t: mica.Tensor) -> np.ndarray:
    return t.detach().numpy()


def test_a_state_goes_on_where_it_was() -> None:
    mica.manual_seed(0)
    x = mica.randn(6, 2, 3)
    for layer in (nn.LSTM(3, 4, num_layers=2), nn.GRU(3, 4), nn.RNN(3, 4, nonlinearity="relu")):
        y, last = layer(x)
        first, state = layer(x[:2])
        second, end = layer(x[2:], state)
        np.testing.assert_allclose(array(mica.cat([first, second])), array(y), rtol=1e-5)
        for a, b in zip(*(s if isinstance(s, tuple) else (s,) for s in (end, last)), strict=True):
            np.testing.assert_allclose(array(a), array(b), rtol=1e-5)


def test_one_sequence_needs_no_batch() -> None:
    lstm = nn.LSTM(3, 4, batch_first=True)
    x = mica.randn(5, 3)
    y, (h, c) = lstm(x)
    batched, _ = lstm(x.unsqueeze(0))
    assert (y.shape, h.shape, c.shape) == ((5, 4), (1, 4), (1, 4))
    np.testing.assert_array_equal(array(y), array(batched[0]))


def test_cells_compute_what_layers_do() -> None:
    x = mica.randn(4, 2, 3)
    for kind in ("LSTM", "GRU", "RNN"):
        layer, cell = getattr(nn, kind)(3, 5), getattr(nn, kind + "Cell")(3, 5)
        cell.load_state_dict({k.removesuffix("_l0"): v for k, v in layer.state_dict().items()})
        y, _ = layer(x)
        state = None
        for t in range(4):
            state = cell(x[t], state)
            h = state[0] if kind == "LSTM" else state
            np.testing.assert_allclose(array(h), array(y[t]), rtol=1e-5, atol=1e-6)


def test_a_sequence_does_not_see_its_padding() -> None:
    mica.manual_seed(1)
    gru = nn.GRU(3, 4, num_layers=2, bidirectional=True)
    x = mica.randn(6, 3, 3)
    lengths = [6, 1, 4]
    y, h = gru(x, lengths=mica.tensor(lengths))
    for n, length in enumerate(lengths):
        alone, state = gru(x[:length, n])
        np.testing.assert_allclose(array(y[:length, n]), array(alone), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(array(h[:, n]), array(state), rtol=1e-5, atol=1e-6)
        assert not array(y[length:, n]).any()


def test_lengths_of_zero_are_refused() -> None:
    with pytest.raises(mica.Error, match=r"lengths must be in \[1, 4\]"):
        nn.GRU(3, 4)(mica.randn(4, 2, 3), lengths=mica.tensor([4, 0]))
    with pytest.raises(mica.Error, match=r"lengths must be in \[1, 4\], got 0"):
        rnn.pack_padded_sequence(mica.randn(4, 2, 3), [4, 0])


def test_packed_sequences_come_back() -> None:
    parts = [mica.randn(n, 2) for n in (2, 5, 3)]
    padded = rnn.pad_sequence(parts, batch_first=True, padding_value=-1.0)
    assert padded.shape == (3, 5, 2)
    assert padded[0, 3, 0].item() == -1
    packed = rnn.pack_sequence(parts, enforce_sorted=False)
    assert packed.batch_sizes.tolist() == [3, 3, 2, 1, 1]
    assert packed.sorted_indices is not None
    assert packed.sorted_indices.tolist() == [1, 2, 0]
    back, lengths = rnn.pad_packed_sequence(packed, batch_first=True, padding_value=-1.0)
    assert lengths.tolist() == [2, 5, 3]
    np.testing.assert_array_equal(array(back), array(padded))
    for a, b in zip(rnn.unpack_sequence(packed), parts, strict=True):
        np.testing.assert_array_equal(array(a), array(b))
    with pytest.raises(mica.Error, match="the longest sequence comes first"):
        rnn.pack_sequence(parts)


def test_packed_sequences_are_tuples_that_move() -> None:
    packed = rnn.pack_sequence([mica.randn(n, 2) for n in (2, 3)], enforce_sorted=False)
    data, sizes, order, back = packed
    assert (len(packed), packed[0].shape) == (4, (5, 2))
    wider = packed.to(mica.float64)
    assert wider.data.dtype == mica.float64
    assert wider.batch_sizes.tolist() == sizes.tolist() == [2, 2, 1]
    halved = rnn.PackedSequence(0.5 * data, sizes, order)
    assert halved.unsorted_indices is not None and halved.unsorted_indices.tolist() == back.tolist()
    np.testing.assert_array_equal(array(rnn.unpack_sequence(halved)[0]) * 2, array(data[[1, 3]]))
    left = rnn.pad_sequence([mica.ones(1), mica.ones(2)], batch_first=True, padding_side="left")
    assert left.tolist() == [[0, 1], [1, 1]]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: rnn.PackedSequence(mica.ones(5, 2)), "expected data and batch_sizes"),
        (lambda: rnn.PackedSequence(mica.ones(5, 2), mica.tensor([2, 3])), "never grow, got 3"),
        (lambda: rnn.pack_sequence([]), "expected at least one sequence"),
        (lambda: rnn.pack_sequence([mica.ones(0, 2)]), r"lengths must be in \[1, 0\], got 0"),
        (lambda: rnn.pad_sequence([mica.ones(2), mica.ones(2, 1)]), "alike but for their first"),
        (lambda: rnn.pad_sequence([mica.ones(2)], padding_side="top"), "one of 'right', 'left'"),
        (lambda: rnn.pack_padded_sequence(mica.ones(2, 0, 1), []), "at least one sequence"),
        (lambda: rnn.unpad_sequence(mica.ones(2), [1]), "expected at least 2 axes"),
    ],
)
def test_wrong_sequences_are_refused(call: Any, words: str) -> None:
    with pytest.raises(mica.Error, match=words):
        call()


@pytest.mark.parametrize("lengths", [3, "ab", [[1]], [1.5], mica.ones(1), mica.ones(1, 1).long()])
def test_lengths_are_integers(lengths: Any) -> None:
    with pytest.raises(TypeError, match="lengths: expected a list of integers or an integer"):
        rnn.pack_padded_sequence(mica.ones(2, 1, 1), lengths)


@pytest.mark.parametrize("options", [{}, {"proj_size": 40}, {"batch_first": True}])
def test_threads_walk_their_own_sequences(options: dict[str, Any]) -> None:
    lstm = nn.LSTM(24, 64, bidirectional=True, **options)
    x = mica.randn(32, 32, 24, requires_grad=True)  # large enough to be divided
    states = mica.randn(2, 32, options.get("proj_size", 64)), mica.randn(2, 32, 64)
    given = states, mica.randint(1, 33, (32,))

    def results(kernel: str) -> list[np.ndarray]:
        mica.force_kernel("recurrent", kernel)
        try:
            y, (h, c) = lstm(x, *given)
            with mica.no_grad():
                alone, _ = lstm(x)
            (grad,) = mica.autograd.grad([y.square().sum()], [x])
            return [array(t) for t in (y, h, c, alone, grad)]
        finally:
            mica.force_kernel("recurrent", "")

    threads = mica.get_num_threads()
    try:
        mica.set_num_threads(2)
        found = results("")
    finally:
        mica.set_num_threads(threads)
    for a, b in zip(found, results("reference"), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-5)


def test_dropout_is_between_layers_and_in_training_alone() -> None:
    lstm = nn.LSTM(3, 32, num_layers=2, dropout=0.5)
    x = mica.randn(4, 2, 3)
    assert not np.array_equal(array(lstm(x)[0]), array(lstm(x)[0]))
    lstm.eval()
    np.testing.assert_array_equal(array(lstm(x)[0]), array(lstm(x)[0]))
    one = nn.LSTM(3, 4, dropout=0.5)
    np.testing.assert_array_equal(array(one(x)[0]), array(one(x)[0]))


def test_dropout_takes_the_same_from_every_kernel() -> None:
    lstm = nn.LSTM(3, 16, num_layers=2, dropout=0.5)
    x = mica.randn(4, 2, 3)

    def result(forward: Any = lstm, kernel: str = "") -> np.ndarray:
        mica.force_kernel("recurrent", kernel)
        mica.manual_seed(5)
        try:
            return array(forward(x)[0])
        finally:
            mica.force_kernel("recurrent", "")

    expected = result(kernel="reference")
    for other in (result(kernel="gemm"), result(), result(mica.compile(lstm))):
        np.testing.assert_allclose(other, expected, atol=1e-6)


def test_layers_say_what_they_were_given() -> None:
    lstm = nn.LSTM(3, 4)
    for shape in ((5, 2, 7), (3,), (1, 5, 2, 3)):
        with pytest.raises(mica.ShapeError, match=r"nn::LSTM: expected an input \(T, N, 3\)"):
            lstm(mica.randn(*shape))
    with pytest.raises(mica.ShapeError, match=r"nn::GRU: expected an input \(N, T, 3\)"):
        nn.GRU(3, 4, batch_first=True)(mica.randn(2, 5, 4))


def test_attributes_are_pytorchs() -> None:
    gru = nn.GRU(3, 4, num_layers=2, bidirectional=True)
    assert [len(w) for w in gru.all_weights] == [4] * 4
    second = gru.all_weights[1]
    np.testing.assert_array_equal(array(second[0]), array(gru.weight_ih_l0_reverse))
    assert (gru.mode, nn.LSTM(3, 4).mode) == ("GRU", "LSTM")
    relu = nn.RNN(3, 4, nonlinearity="relu")
    assert (relu.nonlinearity, relu.mode) == ("relu", "RNN_RELU")
    assert nn.RNNCell(3, 4).nonlinearity == "tanh"


def test_copies_have_weights_of_their_own() -> None:
    gru = nn.GRU(3, 4)
    other = copy.deepcopy(gru)
    x = mica.randn(4, 2, 3)
    before = array(gru(x)[0])
    with mica.no_grad():
        other.weight_hh_l0.fill_(0)
    np.testing.assert_array_equal(array(gru(x)[0]), before)
    assert not np.array_equal(array(other(x)[0]), before)


def test_a_compiled_step_carries_its_state() -> None:
    mica.manual_seed(3)
    lstm = nn.LSTM(3, 4)
    optimizer = mica.optim.SGD(lstm.parameters(), lr=0.1)
    h, c = mica.zeros(1, 2, 4), mica.zeros(1, 2, 4)

    def step(x: mica.Tensor, lengths: mica.Tensor) -> mica.Tensor:
        y, (h1, c1) = lstm(x, (h, c), lengths=lengths)
        loss = y.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        h.copy_(h1.detach())
        c.copy_(c1.detach())
        return loss.detach()

    state = {k: v.clone() for k, v in lstm.state_dict().items()}
    xs = [mica.randn(5, 2, 3) for _ in range(4)]
    lengths = [mica.tensor(n) for n in ([5, 2], [1, 5], [3, 3], [5, 5])]
    eager = [step(x, n).item() for x, n in zip(xs, lengths, strict=True)]
    lstm.load_state_dict(state)
    h.fill_(0)
    c.fill_(0)
    compiled = mica.compile(step)
    found = [compiled(x, n).item() for x, n in zip(xs, lengths, strict=True)]
    assert compiled.captures == 1
    np.testing.assert_allclose(found, eager, rtol=1e-5)


def test_a_layer_learns_to_remember() -> None:
    mica.manual_seed(0)
    lstm, out = nn.LSTM(2, 16), nn.Linear(16, 2)
    optimizer = mica.optim.Adam([*lstm.parameters(), *out.parameters()], lr=0.05)
    rng = np.random.default_rng(0)

    def batch() -> tuple[mica.Tensor, mica.Tensor]:
        bits = rng.integers(0, 2, (5, 32))
        x = np.eye(2, dtype=np.float32)[bits]
        return mica.tensor(x), mica.tensor(bits[0])

    for _ in range(150):
        x, y = batch()
        loss = nn.functional.cross_entropy(out(lstm(x)[0][-1]), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1


@pytest.mark.skipif(not CORPUS.exists(), reason="scripts/setup --corpus makes data/kjv.txt")
def test_a_character_model_learns_a_real_text() -> None:
    text = CORPUS.read_text()[:100_000]
    vocabulary = mica.text.Vocabulary.characters(text)
    tokens = np.array(vocabulary.encode(text))
    end, streams, window = 95_000, 16, 64
    steps = end // streams
    learned = mica.tensor(np.ascontiguousarray(tokens[: steps * streams].reshape(streams, steps).T))
    tested = mica.tensor(tokens[end:, None])
    mica.manual_seed(0)
    embedding, lstm = nn.Embedding(len(vocabulary), 32), nn.LSTM(32, 96)
    out = nn.Linear(96, len(vocabulary))
    optimizer = mica.optim.Adam(
        [p for layer in (embedding, lstm, out) for p in layer.parameters()], lr=0.01
    )
    h, c = mica.zeros(1, streams, 96), mica.zeros(1, streams, 96)

    def loss_of(x: mica.Tensor, state: tuple[mica.Tensor, mica.Tensor] | None) -> Any:
        y, state = lstm(embedding(x[:-1]), state)
        logits = out(y).reshape(-1, len(vocabulary))
        return nn.functional.cross_entropy(logits, x[1:].reshape(-1)), state

    @mica.compile
    def step(x: mica.Tensor) -> None:
        loss, (h1, c1) = loss_of(x, (h, c))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        h.copy_(h1.detach())
        c.copy_(c1.detach())

    for _ in range(2):
        h.fill_(0)
        c.fill_(0)
        for at in range(0, steps - window, window):
            step(learned[at : at + window + 1])
    with mica.no_grad():
        bits = loss_of(tested, None)[0].item() / np.log(2)
    counts = np.bincount(tokens[:end], minlength=len(vocabulary))
    unigram = -np.log2(np.maximum(counts, 1)[tokens[end:]] / end).mean()
    assert bits < 0.75 * unigram


def test_autocast_runs_layers_in_the_low_dtype() -> None:
    gru = nn.GRU(8, 16)
    x = mica.randn(4, 2, 8)
    with mica.autocast("cpu", dtype=mica.bfloat16):
        y, h = gru(x)
    assert y.dtype == h.dtype == mica.bfloat16
    np.testing.assert_allclose(array(y.float()), array(gru(x)[0]), atol=0.03)


def test_ctc_loss_is_pytorchs() -> None:
    logits = mica.tensor(2 * np.sin(np.arange(72) * 0.7).reshape(6, 3, 4), requires_grad=True)
    targets = mica.tensor([[1, 2, 2], [3, 1, 1], [2, 0, 0]])
    lengths = mica.tensor([6, 5, 3]), mica.tensor([3, 2, 1])
    losses = nn.CTCLoss(reduction="none")(logits.log_softmax(-1), targets, *lengths)
    expected = [5.595790927350488, 4.135275964130205, 2.454389184506018]
    np.testing.assert_allclose(array(losses), expected, rtol=1e-12)
    joined = mica.tensor([1, 2, 2, 3, 1, 2])
    again = nn.CTCLoss(reduction="none")(logits.log_softmax(-1), joined, *lengths)
    np.testing.assert_array_equal(array(again), array(losses))
    narrow = [t.to(mica.int32) for t in (targets, *lengths)]
    listed = targets, (6, 5, 3), [3, 2, 1]
    for given in (narrow, listed):
        same = nn.CTCLoss(reduction="none")(logits.log_softmax(-1), *given)
        np.testing.assert_array_equal(array(same), array(losses))
    with pytest.raises(mica.Error, match="must add up to their number"):
        nn.CTCLoss()(logits.log_softmax(-1), joined[1:], *lengths)
    losses.sum().backward()
    sizes = [6.19546389284461, 3.78156939158554, 3.1282306413560867]
    np.testing.assert_allclose(np.abs(array(logits.grad)).sum((0, 2)), sizes, rtol=1e-12)
    mean = nn.functional.ctc_loss(logits.log_softmax(-1), targets, *lengths)
    np.testing.assert_allclose(mean.item(), 2.129096936340428, rtol=1e-12)
    alone = nn.functional.ctc_loss(
        logits[:, 0].log_softmax(-1), targets[0], lengths[0][0], lengths[1][0], reduction="sum"
    )
    np.testing.assert_allclose(alone.item(), expected[0], rtol=1e-12)


def test_a_vocabulary_comes_back() -> None:
    text = mica.text.Vocabulary.characters("häß, b")
    assert len(text) == 6
    assert text.decode(text.encode("bäh")) == "bäh"
    with pytest.raises(mica.Error, match="has no 'x'"):
        text.encode("x")
    again = mica.text.Vocabulary.from_entries(text.entries)
    assert again.encode("ß") == text.encode("ß")
    every = mica.text.Vocabulary.bytes()
    assert every.encode("ä") == [0xC3, 0xA4]
    assert every.decode([0xC3, 0xA4, 0xFF]) == "ä\ufffd"


def test_names_are_spelled_anew() -> None:
    text = "And Ruth went; so Ruth said to RUTH: 1Sam2. " * 2
    vocabulary = mica.text.Vocabulary.characters(text)
    tokens = vocabulary.encode(text)
    assert mica.text.respelled(vocabulary, tokens, part=0, seed=3) == tokens
    spelled = vocabulary.decode(mica.text.respelled(vocabulary, tokens, part=1, seed=3))
    words, old = spelled.split(), text.split()
    assert words[1] == words[4] != "Ruth"
    assert words[: len(words) // 2] == words[len(words) // 2 :]
    names = (0, 1, 4, 8)
    assert all(
        w == o for i, (w, o) in enumerate(zip(words[:9], old[:9], strict=True)) if i not in names
    )
    assert words[8][0] == "1" and words[8][-2:] == "2."
