"""transformers' models on a CUDA device: "attune" says what "eager" says, in fp32 to the token."""
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
if not torch.cuda.is_available():
    pytest.skip("there is no CUDA device", allow_module_level=True)
import attune.hf  # noqa: E402

SIZES = {"vocab_size": 97, "hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256, "pad_token_id": 0}
MODELS = [("Llama", {}), ("Mistral", {"sliding_window": 16}),
          ("Gemma2", {"head_dim": 64, "sliding_window": 16, "attn_logit_softcapping": 5.0,
                      "query_pre_attn_scalar": 64}),
          ("GptOss", {"head_dim": 64, "sliding_window": 16, "num_local_experts": 2, "num_experts_per_tok": 1})]


@pytest.mark.parametrize("name,options", MODELS, ids=[name for name, _ in MODELS])
def test_generation(name, options):
    if not hasattr(transformers, f"{name}Config"):
        pytest.skip(f"this transformers has no {name}")
    attune.hf.register()
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**SIZES, **options)
    model = getattr(transformers, f"{name}ForCausalLM")(config).eval().cuda()
    tokens = torch.randint(1, 97, (2, 40), device="cuda")
    masks = torch.ones_like(tokens)
    masks[1, :7] = 0
    for cache in (None, "static"):
        for mask in (masks, torch.ones_like(tokens)):
            said = {}
            for implementation in ("eager", "attune"):
                model.set_attn_implementation(implementation)
                said[implementation] = model.generate(tokens, attention_mask=mask, max_new_tokens=16, do_sample=False,
                                                      cache_implementation=cache, disable_compile=True)
            assert torch.equal(said["eager"], said["attune"]), cache
