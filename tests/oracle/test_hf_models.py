"""Language models and vision transformers beside those of Hugging Face's transformers and of
torchvision: random weights through safetensors files, outputs and gradients, float64.

    PYTHONPATH=build/release/python python -m pytest tests/oracle/test_hf_models.py

Skipped where the packages are not installed.
"""

import mica
import numpy as np
import pytest
from mica import models

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
safetensors = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")

TOLERANCE = 1e-9


def close(a, b, what):
    a, b = (np.asarray(x, np.float64) for x in (a, b))
    scale = max(1, np.abs(b).max(initial=0))
    np.testing.assert_allclose(a, b, rtol=0, atol=TOLERANCE * scale, err_msg=what)


def randomised(net, seed):
    torch.manual_seed(seed)
    with torch.no_grad():
        for p in net.parameters():
            p.normal_(0, 0.3)
    return net.double()


def loaded(ours, theirs, convert, path):
    """Through a file, as a user does it."""
    state = {k: t.contiguous().clone() for k, t in theirs.state_dict().items()}
    safetensors.save_file(state, str(path))
    ours.to(dtype="float64").load_state_dict(convert(mica.load(str(path))))
    return ours


def same_gradients(ours, theirs, turned=()):
    found = {n: p.grad for n, p in theirs.named_parameters()}
    for name, p in ours.named_parameters():
        expected = found[name].numpy()
        if any(name.endswith(end) for end in turned):
            expected = expected.T
        close(p.grad.numpy(), expected, name)


def language_model_loss(ours, theirs, tokens, turned=()):
    reference = theirs(torch.tensor(tokens[:, :-1])).logits
    logits = ours(mica.tensor(tokens[:, :-1]))
    close(logits.detach().numpy(), reference.detach().numpy(), "logits")
    targets = tokens[:, 1:].reshape(-1)
    torch.nn.functional.cross_entropy(
        reference.reshape(len(targets), -1), torch.tensor(targets)
    ).backward()
    mica.nn.functional.cross_entropy(
        logits.reshape(len(targets), -1), mica.tensor(targets)
    ).backward()
    same_gradients(ours, theirs, turned)


@pytest.mark.parametrize("seed", range(4))
def test_gpt2(seed, tmp_path):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    rng = np.random.default_rng(seed)
    heads = int(rng.integers(1, 4))
    size = {"n_embd": 4 * heads, "n_layer": 2, "n_head": heads, "n_positions": 16}
    config = transformers.GPT2Config(
        vocab_size=23, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, **size
    )
    theirs = randomised(transformers.GPT2LMHeadModel(config), seed)
    ours = loaded(
        models.gpt2(vocab_size=23, **size),
        type("Untied", (), {"state_dict": lambda self: dict(theirs.state_dict())})(),
        models.gpt2_from_huggingface,
        tmp_path / "model.safetensors",
    )
    tokens = rng.integers(0, 23, (2, 9))
    layers = ("c_attn.weight", "c_proj.weight", "c_fc.weight")
    language_model_loss(ours, theirs, tokens, layers)
    generated = theirs.generate(torch.tensor(tokens[:, :3]), max_new_tokens=8, do_sample=False)
    own = models.gpt2_generate(ours, mica.tensor(tokens[:, :3]), 8)
    np.testing.assert_array_equal(own.numpy(), generated.numpy())


@pytest.mark.parametrize("seed", range(6))
def test_llama(seed, tmp_path):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    rng = np.random.default_rng(seed)
    kv_heads = int(rng.integers(1, 3))
    heads = kv_heads * int(rng.integers(1, 4))
    size = {
        "vocab_size": 29,
        "hidden_size": heads * 2 * int(rng.integers(1, 4)),
        "intermediate_size": int(rng.integers(3, 12)),
        "num_hidden_layers": 2,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": 20,
        "rms_norm_eps": 1e-5,
        "rope_theta": float(rng.choice([10000, 500.0])),
        "tie_word_embeddings": bool(seed % 2),
    }
    config = transformers.LlamaConfig(
        **size, attn_implementation="eager", bos_token_id=None, eos_token_id=None
    )
    theirs = randomised(transformers.LlamaForCausalLM(config), seed)
    for module in theirs.modules():  # their angles are of float32
        if hasattr(module, "inv_freq"):
            half = module.inv_freq.shape[0]
            steps = torch.arange(half, dtype=torch.float64)
            module.inv_freq = size["rope_theta"] ** (-steps / half)
    ours = loaded(
        models.llama(**size),
        theirs,
        lambda s: models.llama_from_huggingface(s, tied=size["tie_word_embeddings"]),
        tmp_path / "model.safetensors",
    )
    tokens = rng.integers(0, 29, (2, 9))
    reference = theirs(torch.tensor(tokens)).logits.detach().numpy()
    logits = ours(mica.tensor(tokens)).detach().numpy()
    # What is left of float32 in their rotation.
    np.testing.assert_allclose(logits, reference, rtol=0, atol=2e-6 * np.abs(reference).max())
    prompt = torch.tensor(tokens[:, :3])
    generated = theirs.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=8,
        do_sample=False,
        pad_token_id=0,
    )
    own = models.llama_generate(ours, mica.tensor(tokens[:, :3]), 8)
    np.testing.assert_array_equal(own.numpy(), generated.numpy())


@pytest.mark.parametrize("seed", range(4))
def test_bert(seed, tmp_path):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    rng = np.random.default_rng(seed)
    heads = int(rng.integers(1, 4))
    size = {
        "vocab_size": 31,
        "hidden_size": 4 * heads,
        "intermediate_size": 10,
        "num_hidden_layers": 2,
        "num_attention_heads": heads,
        "max_position_embeddings": 12,
    }
    config = transformers.BertConfig(**size, hidden_dropout_prob=0, attention_probs_dropout_prob=0)
    theirs = randomised(transformers.BertModel(config), seed)
    ours = loaded(
        models.bert(**size, dropout=0.0),
        theirs,
        models.bert_from_huggingface,
        tmp_path / "model.safetensors",
    )
    assert set(ours.state_dict()) == {k for k in theirs.state_dict() if "position_ids" not in k}
    tokens, types = rng.integers(0, 31, (3, 7)), rng.integers(0, 2, (3, 7))
    mask = (np.arange(7) < rng.integers(1, 8, 3)[:, None]).astype(np.int64)
    reference = theirs(
        torch.tensor(tokens), attention_mask=torch.tensor(mask), token_type_ids=torch.tensor(types)
    )
    hidden, pooled = ours(mica.tensor(tokens), mica.tensor(mask), mica.tensor(types))
    close(hidden.detach().numpy(), reference.last_hidden_state.detach().numpy(), "hidden")
    close(pooled.detach().numpy(), reference.pooler_output.detach().numpy(), "pooled")
    cotangent = rng.standard_normal(pooled.shape)
    (reference.pooler_output * torch.tensor(cotangent)).sum().backward()
    (pooled * mica.tensor(cotangent)).sum().backward()
    same_gradients(ours, theirs)


@pytest.mark.parametrize("seed", range(3))
def test_vit(seed, tmp_path):
    pytest.importorskip("torchvision", reason="torchvision is not installed")
    from torchvision.models import VisionTransformer

    rng = np.random.default_rng(seed)
    heads = int(rng.integers(1, 4))
    size = {
        "image_size": 12,
        "patch_size": int(rng.choice([3, 4])),
        "num_layers": 2,
        "num_heads": heads,
        "hidden_dim": 4 * heads,
        "mlp_dim": 9,
        "num_classes": 5,
    }
    theirs = randomised(VisionTransformer(**size), seed)
    ours = loaded(models.vit(**size), theirs, lambda s: s, tmp_path / "model.safetensors")
    assert list(ours.state_dict()) == list(theirs.state_dict())
    images = rng.standard_normal((2, 3, 12, 12))
    reference, logits = theirs(torch.tensor(images)), ours(mica.tensor(images))
    close(logits.detach().numpy(), reference.detach().numpy(), "logits")
    cotangent = rng.standard_normal(logits.shape)
    (reference * torch.tensor(cotangent)).sum().backward()
    (logits * mica.tensor(cotangent)).sum().backward()
    same_gradients(ours, theirs)
