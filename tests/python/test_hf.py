"""attune.hf: small random models of transformers say the same with "attune" as with "eager"; without them, skipped."""
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("transformers.masking_utils")
import attune.hf  # noqa: E402
import attune.torch  # noqa: E402

SIZES = {"vocab_size": 97, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, "pad_token_id": 0}


def models():
    yield "Llama", transformers.LlamaForCausalLM, transformers.LlamaConfig(**SIZES)
    yield "Gemma2", transformers.Gemma2ForCausalLM, transformers.Gemma2Config(
        **SIZES, head_dim=16, sliding_window=8, attn_logit_softcapping=5.0, query_pre_attn_scalar=16)
    if hasattr(transformers, "GptOssConfig"):
        yield "GptOss", transformers.GptOssForCausalLM, transformers.GptOssConfig(
            **SIZES, head_dim=16, sliding_window=8, num_local_experts=2, num_experts_per_tok=1)


@pytest.mark.parametrize("name,kind,config", models(), ids=lambda value: value if isinstance(value, str) else "")
def test_generation(name, kind, config):
    attune.hf.register()
    torch.manual_seed(0)
    model = kind(config).eval()
    tokens = torch.randint(1, 97, (2, 20))
    masks = torch.ones_like(tokens)
    masks[1, :5] = 0
    for cache in (None, "static"):
        said = {}
        for implementation in ("eager", "attune"):
            model.set_attn_implementation(implementation)
            said[implementation] = model.generate(tokens, attention_mask=masks, max_new_tokens=12, do_sample=False,
                                                  cache_implementation=cache, disable_compile=True)
        assert torch.equal(said["eager"], said["attune"]), cache


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
