"""attune.hf: small random models of transformers say the same with "attune" as with "eager"; without them, skipped."""
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("transformers.masking_utils")
import attune.hf  # noqa: E402
import attune.torch  # noqa: E402

SIZES = {"vocab_size": 97, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, "pad_token_id": 0}


def configs(kind, **more):
    return getattr(transformers, f"{kind}ForCausalLM"), getattr(transformers, f"{kind}Config")(**SIZES, **more)


WINDOWED = {"head_dim": 16, "sliding_window": 8}
MODELS = [("Llama", {}), ("Mistral", {"sliding_window": 8}), ("Qwen2", {}),
          ("Gemma2", {**WINDOWED, "attn_logit_softcapping": 5.0, "query_pre_attn_scalar": 16}),
          ("GptOss", {**WINDOWED, "num_local_experts": 2, "num_experts_per_tok": 1})]  # with sinks
MODELS = [(name, more) for name, more in MODELS if hasattr(transformers, f"{name}Config")]
NAMES = [name for name, _ in MODELS]
REFUSED = ("Gemma2", "GptOss")  # caps and sinks have no gradient


def make(name, more):
    attune.hf.register()
    torch.manual_seed(0)
    kind, config = configs(name, **more)
    return kind(config).eval()


@pytest.mark.parametrize("name,more", MODELS, ids=NAMES)
def test_generation(name, more):
    model = make(name, more)
    tokens = torch.randint(1, 97, (2, 20))
    masks = torch.ones_like(tokens)
    masks[1, :5] = 0
    for cache in (None, "static"):
        for mask in (masks, torch.ones_like(tokens)):  # of which the second may be left out
            said = {}
            for implementation in ("eager", "attune"):
                model.set_attn_implementation(implementation)
                said[implementation] = model.generate(
                    tokens, attention_mask=mask, max_new_tokens=12, do_sample=False, cache_implementation=cache,
                    disable_compile=True, return_dict_in_generate=True, output_logits=True)
            assert torch.equal(said["eager"].sequences, said["attune"].sequences), cache
            for have, want in zip(said["attune"].logits, said["eager"].logits):
                assert torch.allclose(have, want, atol=2e-5), cache


@pytest.mark.parametrize("name,more", MODELS, ids=NAMES)
def test_logits_and_gradients(name, more):
    """Of a prompt, of one that is continued in chunks, and of training where it has one."""
    model, tokens, found = make(name, more), torch.randint(1, 97, (2, 24)), {}
    for implementation in ("eager", "attune"):
        model.set_attn_implementation(implementation)
        model.zero_grad()
        with torch.no_grad():
            first = model(tokens[:, :15], use_cache=True)
            rest = model(tokens[:, 15:], past_key_values=first.past_key_values)
            found[implementation] = [model(tokens).logits, rest.logits]
        if name not in REFUSED:
            model(tokens, labels=tokens).loss.backward()
            found[implementation] += [p.grad.clone() for p in model.parameters()]
    for have, want in zip(found["attune"], found["eager"]):
        assert torch.allclose(have, want, atol=2e-5)
    if name in REFUSED:
        with pytest.raises(attune.Error, match="a gradient is required"):
            model(tokens)


@pytest.mark.parametrize("name,more", [one for one in MODELS if one[0] in ("Llama", "Gemma2")], ids=["Llama", "Gemma2"])
def test_continuous_batching(name, more, monkeypatch):
    if int(transformers.__version__.partition(".")[0]) >= 5:
        pytest.skip("transformers 5 takes its own implementations alone for continuous batching")
    cache = pytest.importorskip("transformers.generation.continuous_batching.cache")
    monkeypatch.setattr(cache.PagedAttentionMemoryHandler, "get_available_memory", staticmethod(lambda *_: 1 << 26))
    model, said = make(name, more), {}
    asked = transformers.GenerationConfig(max_new_tokens=12, do_sample=False, eos_token_id=96, pad_token_id=0,
                                          num_blocks=64, max_batch_tokens=64)
    for implementation in ("eager_paged", "attune_paged"):
        model.set_attn_implementation(implementation)
        answers = model.generate_batch([[5, 6, 7], list(range(9, 30)), [3]], generation_config=asked)
        said[implementation] = {name: answer.generated_tokens for name, answer in answers.items()}
    assert len(said["eager_paged"]) == 3 and said["eager_paged"] == said["attune_paged"]


def test_vit():
    attune.hf.register()
    torch.manual_seed(0)
    model = transformers.ViTModel(transformers.ViTConfig(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32, patch_size=8))
    image, found = torch.randn(2, 3, 32, 32), {}
    for implementation in ("eager", "attune"):
        model.eval().set_attn_implementation(implementation)
        with torch.no_grad():
            found[implementation] = model(image).last_hidden_state
    assert torch.allclose(found["eager"], found["attune"], atol=1e-5)


def test_masks_that_say_a_window_alone():
    """They say so, in transformers that name what they ask for, and where nothing is padded."""
    from transformers import masking_utils
    if "q_offset" not in masking_utils.sdpa_mask.__code__.co_varnames:
        pytest.skip("this transformers does not say where queries stand")
    window, chunks = masking_utils.sliding_window_causal_mask_function, masking_utils.chunked_causal_mask_function
    padding = torch.ones(2, 20, dtype=torch.bool)
    plain = {"batch_size": 2, "q_length": 20, "kv_length": 20, "mask_function": window(8), "local_size": 8}
    decoding = {**plain, "q_length": 1, "kv_length": 8, "q_offset": 19, "kv_offset": 12}
    for options in (plain, {**plain, "attention_mask": padding}, decoding, {**decoding, "attention_mask": padding}):
        made = attune.hf.mask(**options)
        assert made.attune_window == 8 and torch.equal(made, masking_utils.sdpa_mask(**options))
    hidden = padding.clone()
    hidden[1, :3] = False
    for change in ({"attention_mask": hidden}, {"mask_function": window(7)}, {"allow_is_causal_skip": False},
                   {"mask_function": chunks(8, torch.zeros(2, dtype=torch.long))}, {"q_length": 12, "q_offset": 8},
                   {"mask_function": masking_utils.and_masks(window(8), window(5))}, {"kv_length": 24},
                   {"mask_function": masking_utils.causal_mask_function}):
        made = attune.hf.mask(**{**plain, **change})
        assert not hasattr(made, "attune_window"), change


@pytest.mark.parametrize("name", [name for name in NAMES if name in ("Mistral", "Gemma2", "GptOss")])
def test_windows_of_long_prompts(name, monkeypatch):
    """Longer than the window by far, and continued: what is said, and that masks are left out where they may be."""
    model, seen, own = make(name, dict(MODELS)[name]), [], attune.torch.sdpa
    monkeypatch.setattr(attune.torch, "sdpa", lambda *t, **o: (seen.append(o["attn_mask"] is None), own(*t, **o))[1])
    tokens, said = torch.randint(1, 97, (2, 40)), {}
    for implementation in ("eager", "attune"):
        model.set_attn_implementation(implementation)
        said[implementation] = model.generate(tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=20,
                                              do_sample=False)
    assert torch.equal(said["eager"], said["attune"])
    if int(transformers.__version__.partition(".")[0]) >= 5:
        assert seen and all(seen)
