"""cuDNN's graph for paged attention, as a peer: --against py:bench/cudnn_paged.py:attention, and an arm of decode.py.

It needs PyTorch with its cuDNN, and the package nvidia-cudnn-frontend. K and V are pools [pages, heads_kv, rows, d].
"""
import functools

import torch


@functools.lru_cache(None)
def frontend(device):
    import cudnn
    return cudnn, cudnn.create_handle()


def prepare(q, k, v, *, causal=False, scale=None, page_table, seqused, seqlen_kv, page_table_v=None):
    """The graph, planned for these tensors; to be called without arguments, it returns O. Entries that are no pages
    become some page: cuDNN reads what they name, if only to hide it. NOTE: cuDNN itself does not
    scale where `scale` is None; here that is the usual one."""
    scale = q.shape[3] ** -0.5 if scale is None else scale
    cudnn, handle = frontend(q.device.index)
    types = {torch.float16: cudnn.data_type.HALF, torch.bfloat16: cudnn.data_type.BFLOAT16}
    batch, heads, seqlen_q, _ = q.shape
    o = torch.empty_strided((batch, heads, seqlen_q, v.shape[3]), q.stride(), dtype=q.dtype, device=q.device)
    width = -(-seqlen_kv // k.shape[2])  # cuDNN takes tables that are no wider
    tables = [table[:, :width].clamp(0, pool.shape[0] - 1).contiguous().view(batch, 1, -1, 1)
              for table, pool in ((page_table, k), (page_table if page_table_v is None else page_table_v, v))]
    rows = torch.full((batch, 1, 1, 1), seqlen_q, dtype=torch.int32, device=q.device)
    keys = seqused.view(batch, 1, 1, 1)
    graph = cudnn.pygraph(handle=handle, io_data_type=types[q.dtype], intermediate_data_type=cudnn.data_type.FLOAT,
                          compute_data_type=cudnn.data_type.FLOAT)
    given = [q, k, v, *tables, rows, keys]
    names = [graph.tensor_like(tensor) for tensor in given]
    out, _ = graph.sdpa(name="attention", q=names[0], k=names[1], v=names[2], generate_stats=False, attn_scale=scale,
                        use_padding_mask=True, seq_len_q=names[5], seq_len_kv=names[6],
                        use_causal_mask_bottom_right=bool(causal) and seqlen_q > 1, paged_attention_k_table=names[3],
                        paged_attention_v_table=names[4], paged_attention_max_seq_len_kv=seqlen_kv)
    out.set_output(True).set_dim(o.shape).set_stride(o.stride())
    graph.validate()
    graph.build_operation_graph()
    graph.create_execution_plans([cudnn.heur_mode.A])
    graph.check_support()
    graph.build_plans()
    room = torch.empty(max(graph.get_workspace_size(), 1), dtype=torch.uint8, device=q.device)
    pack = dict(zip([*names, out], [*given, o]))

    def run():
        cudnn.set_stream(handle=handle, stream=torch.cuda.current_stream().cuda_stream)
        graph.execute(pack, room, handle=handle)
        return o
    return run


def attention(q, k, v, **options):
    return prepare(q, k, v, **options)()


attention.prepare = prepare
