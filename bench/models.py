#!/usr/bin/env python3
"""Whole models of transformers, with PyTorch's attention and with attune's: times, and whether they say the same.

    models.py [--device cuda|cpu] [--models Llama,Gemma,ViT] [--rounds N] [--tokens N] [--seconds S] [--profile]

Random weights, made on the device, transformers' own code. The models share the seconds: rounds end where they are used
up, at least one is timed. Each model runs with attn_implementation "sdpa" (PyTorch's own), "sdpa" under
attune.torch.install(), and "attune" (attune.hf), in turns; times are medians over rounds, ended by a synchronise.
"said": the largest difference of the logits (ViT: of the last hidden states) from those of "eager" in fp32, beside that
of "eager" in the model's own dtype, which is its noise. "tokens": how many of the tokens that the fp32 model generates
greedily are those of "eager". "plans": how many were made in the rounds that are timed, which should be none.
--profile says where the time of eight more tokens goes: the host's, the device's, and its five longest kernels.
"""
import argparse
import contextlib
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import torch  # noqa: E402
import transformers  # noqa: E402

import attune.hf  # noqa: E402
import attune.torch  # noqa: E402
from attune import plans  # noqa: E402

LARGE = {"Llama": ("Llama", {"hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 8,
                             "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000,
                             "max_position_embeddings": 4096}, 4, 2048),
         "Gemma": ("Gemma2", {"hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 8,
                              "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
                              "query_pre_attn_scalar": 256, "sliding_window": 1024, "vocab_size": 32000,
                              "max_position_embeddings": 4096}, 4, 2048),
         "ViT": ("ViT", {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
                         "num_attention_heads": 12, "image_size": 384, "patch_size": 16}, 32, 577)}
SMALL = {"Llama": ("Llama", {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4,
                             "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 1000}, 1, 512),
         "Gemma": ("Gemma2", {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4,
                              "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
                              "query_pre_attn_scalar": 64, "sliding_window": 128, "vocab_size": 1000}, 1, 512),
         "ViT": ("ViT", {"hidden_size": 192, "intermediate_size": 768, "num_hidden_layers": 4,
                         "num_attention_heads": 3, "image_size": 224, "patch_size": 16}, 2, 197)}
WAYS = {"PyTorch": ("sdpa", contextlib.nullcontext), "install()": ("sdpa", attune.torch.use),
        "attune.hf": ("attune", contextlib.nullcontext)}


def make(kind, options, device):
    """In fp32."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**options)
    with torch.device(device):
        return getattr(transformers, f"{kind}Model" if kind == "ViT" else f"{kind}ForCausalLM")(config).eval()


def inputs(kind, options, batch, length, dtype, device):
    torch.manual_seed(1)
    if kind == "ViT":
        size = options["image_size"]
        return {"pixel_values": torch.randn(batch, 3, size, size, dtype=dtype, device=device)}
    return {"input_ids": torch.randint(1, options["vocab_size"], (batch, length), device=device)}


def choose(model, way):
    """"sdpa" is "eager" where this transformers has none for the model, as 5.24 for Gemma 2, whose caps it lacks."""
    try:
        model.set_attn_implementation(way)
    except ValueError:
        if way != "sdpa":
            raise
        model.set_attn_implementation("eager")


def said_by(model, given, way):
    """Logits, or the last hidden states, of the first of a batch."""
    choose(model, way)
    with torch.no_grad():
        found = model(**{name: tensor[:1] for name, tensor in given.items()})
    return (found.logits if hasattr(found, "logits") else found.last_hidden_state).double()


def generate(model, given, tokens):
    ids = given["input_ids"]
    return model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, min_new_tokens=tokens,
                          do_sample=False, pad_token_id=0)


def seconds(function, device):
    begin = time.perf_counter()
    function()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - begin


def profile(model, given, device):
    """Prints, for each way, where the time of eight tokens goes."""
    kinds = [torch.profiler.ProfilerActivity.CPU] + [torch.profiler.ProfilerActivity.CUDA] * (device == "cuda")
    for name, (implementation, within) in WAYS.items():
        choose(model, implementation)
        with within(), torch.no_grad():
            generate(model, given, 8)
            with torch.profiler.profile(activities=kinds) as seen:
                took = seconds(lambda: generate(model, given, 8), device)
        own = {event.key: getattr(event, f"self_{'device' if device == 'cuda' else 'cpu'}_time_total", 0)
               for event in seen.key_averages() if device == "cpu" or str(event.device_type).endswith("CUDA")}
        longest = sorted(own, key=own.get)[:-6:-1]
        print(f"{name}: {1e3 * took:.1f} ms, the device's share {sum(own.values()) / 1e3:.1f}: " +
              ", ".join(f"{key[:60]} {own[key] / 1e3:.2f}" for key in longest), flush=True)


class CountedPlan(plans.Plan):
    made = 0

    def __init__(self, *given, **named):
        CountedPlan.made += 1
        super().__init__(*given, **named)


plans.Plan = CountedPlan


def times(model, given, tokens, rounds, device, end):
    """({way: (prefill, generation or None)} in milliseconds, how many rounds these are medians of, how many plans were
    made in them)."""
    found = {name: ([], []) for name in WAYS}
    for turn in range(rounds + 1):
        if turn > 1 and time.monotonic() > end:
            break
        before = CountedPlan.made if turn < 2 else before
        for name, (implementation, within) in WAYS.items():
            choose(model, implementation)
            with within(), torch.no_grad():
                prefill = seconds(lambda: model(**given), device)
                made = seconds(lambda: generate(model, given, tokens), device) if "input_ids" in given else None
            if turn:  # the first makes plans
                found[name][0].append(1e3 * prefill)
                found[name][1].append(None if made is None else 1e3 * made)
    medians = {name: [None if of[0] is None else statistics.median(of) for of in pair] for name, pair in found.items()}
    return medians, len(found["PyTorch"][0]), CountedPlan.made - before


def same_tokens(model, given, tokens):
    short, said = {"input_ids": given["input_ids"][:2, :256]}, {}
    for way in ("eager", "attune"):
        model.set_attn_implementation(way)
        said[way] = generate(model, short, tokens)[:, -tokens:]
    return f"{(said['eager'] == said['attune']).sum().item()} of {said['eager'].numel()}"


def report(name, sizes, options, end):
    kind, config, batch, length = sizes
    dtype = torch.bfloat16 if options.device == "cuda" else torch.float32
    given = inputs(kind, config, batch, length, dtype, options.device)
    wide = {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in given.items()}
    model = make(kind, config, options.device)
    exact = said_by(model, wide, "eager")
    tokens = "" if kind == "ViT" else same_tokens(model, given, min(options.tokens, 32))
    model = model.to(dtype)
    found = {way: (said_by(model, given, way) - exact).abs().max().item() for way in ("eager", "sdpa", "attune")}
    attune.torch.calls.reset()
    milliseconds, rounds, made_plans = times(model, given, options.tokens, options.rounds, options.device, end)
    print(f"\n{name}-shaped, {str(dtype)[6:]}, batch {batch}, {length} tokens, {rounds} rounds; said: " +
          ", ".join(f"{way} {value:.2g}" for way, value in found.items()) + (tokens and f"; tokens: {tokens}"))
    print(f"install() served {attune.torch.calls}; plans {made_plans}")
    print(f"{'':12}{'prefill ms':>12}{'against':>9}" +
          (tokens and f"{f'{options.tokens} tokens ms':>16}{'against':>9}"))
    own = milliseconds["PyTorch"]
    for way, (prefill, made) in milliseconds.items():
        print(f"{way:12}{prefill:>12.2f}{own[0] / prefill:>9.2f}" +
              ("" if made is None else f"{made:>16.1f}{own[1] / made:>9.2f}"), flush=True)
    if options.profile and "input_ids" in given:
        profile(model, given, options.device)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cuda", "cpu"])
    parser.add_argument("--models", default="Llama,Gemma,ViT")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    attune.hf.register()
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, " +
          (torch.cuda.get_device_name() if options.device == "cuda" else "CPU"))
    names, begin = options.models.split(","), time.monotonic()
    for i, name in enumerate(names):
        end = begin + options.seconds * (i + 1) / len(names)
        report(name, (LARGE if options.device == "cuda" else SMALL)[name], options, end)


if __name__ == "__main__":
    main()
