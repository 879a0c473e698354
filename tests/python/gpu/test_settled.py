"""What a caller promises of tensors (attune_tensor.settled), on a CUDA device: a call that begins before the launch
before it has ended, which only then writes Q and the last rows of K and V."""
import pytest

import attune

torch = pytest.importorskip("torch")
cupy = pytest.importorskip("cupy")
if not torch.cuda.is_available():
    pytest.skip("there is no CUDA device", allow_module_level=True)

# Lets the launch that follows begin at once, and copies 50 us later.
LATE = r"""
extern "C" __global__ void late(const int *from, int *to, long long words)
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do {
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (now - begin < 50000);
    for (long long i = threadIdx.x; i < words; i += blockDim.x) {
        to[i] = from[i];
    }
}
"""


class Step:
    """Queries and caches in one piece of memory, which is copied as a whole from another, where all is there."""

    def __init__(self, batch, heads_kv, rows, keys, page):
        torch.manual_seed(0)
        self.sizes = (batch, 4 * heads_kv, rows, 128), (2, batch * keys // page, heads_kv, page, 128)
        self.sq, self.page, self.keys = rows, page, keys
        q, kv = (int(torch.tensor(size).prod()) for size in self.sizes)
        self.late, self.there = (torch.randn(q + kv, dtype=torch.float16, device="cuda") for _ in range(2))
        self.late.copy_(self.there)
        order = torch.randperm(batch * keys // page, device="cuda").int()
        self.table = order.view(batch, keys // page).contiguous()
        self.used = torch.full((batch,), keys - 5, dtype=torch.int32, device="cuda")
        self.unsettled = torch.zeros(q + kv, dtype=torch.bool, device="cuda")
        self.unsettled[:q] = True
        places = self.unsettled[q:].view(self.sizes[1])
        for i in range(batch):
            for row in range(keys - 5 - rows, keys - 5):
                places[:, int(self.table[i, row // page]), :, row % page] = True

    def arrays(self, memory):
        q = memory[:torch.tensor(self.sizes[0]).prod()].view(self.sizes[0])
        k, v = memory[q.numel():].view(self.sizes[1])
        return {"Q": q, "K": k, "V": v, "PAGE_TABLE_K": self.table, "USED_KV": self.used, "O": torch.empty_like(q)}


@pytest.mark.parametrize("page", [1, 16, 64])
@pytest.mark.parametrize("batch, rows, keys", [(1, 1, 1024), (1, 1, 8192), (1, 4, 2048), (3, 8, 4096), (40, 2, 1024)])
def test_what_is_late_is_waited_for(batch, rows, keys, page):
    step = Step(batch, 2, rows, keys, page)
    plan = attune.plan(f"b{batch},h8,hkv2,sq{rows},skv{keys},d128,fp16,causal,seqused,page={page}", "cuda", "decode")
    room = torch.empty(max(plan.workspace(), 256), dtype=torch.uint8, device="cuda")
    wanted, found = step.arrays(step.there), step.arrays(step.late)
    plan.bind(wanted, room).run()
    call = plan.bind(found, room, settled=("K", "V", "PAGE_TABLE_K", "USED_KV"))
    late = cupy.RawKernel(LATE, "late")
    for _ in range(3):
        step.late.masked_fill_(step.unsettled, float("nan"))
        found["O"].zero_()
        torch.cuda.synchronize()
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            late((1,), (1024,), (cupy.uint64(step.there.data_ptr()), cupy.uint64(step.late.data_ptr()),
                                 cupy.int64(step.late.numel() // 2)))
        call.run()
        torch.cuda.synchronize()
        assert torch.equal(found["O"], wanted["O"])


@pytest.mark.parametrize("change", ["nothing", "lengths", "entries", "both"])
@pytest.mark.parametrize("page", [0, 1, 16, 64])
@pytest.mark.parametrize("batch, heads_kv, rows, keys", [(8, 8, 1, 8192), (1, 2, 1, 8192), (3, 2, 4, 2048),
                                                         (40, 2, 2, 1024), (300, 1, 1, 1024)])
def test_what_lengths_and_entries_become_counts(batch, heads_kv, rows, keys, page, change):
    """Without a promise: the launch before changes them when decode may have looked at them already."""
    torch.manual_seed(1)
    text = f"b{batch},h{4 * heads_kv},hkv{heads_kv},sq{rows},skv{keys},d128,fp16,causal,seqused"
    plan = attune.plan(text + (f",page={page}" if page else ""), "cuda", "decode")
    width = keys // page if page else 0
    shape = (batch * width, heads_kv, page, 128) if page else (batch, heads_kv, keys, 128)
    q, k, v = (torch.randn(size, dtype=torch.float16, device="cuda")
               for size in ((batch, 4 * heads_kv, rows, 128), shape, shape))
    found, wanted = torch.empty_like(q), torch.empty_like(q)

    def draw():
        entries = torch.randperm(batch * width).int()
        return torch.cat([torch.randint(0, keys + 1, (batch,)).int(), entries]).cuda()

    room = torch.empty(max(plan.workspace(), 256), dtype=torch.uint8, device="cuda")
    words, late = draw(), cupy.RawKernel(LATE, "late")
    roles = {"Q": q, "K": k, "V": v, "USED_KV": words[:batch]}
    if page:
        roles["PAGE_TABLE_K"] = words[batch:].view(batch, width)
    for _ in range(3):
        there, before = draw(), draw()
        if change in ("nothing", "entries"):
            before[:batch] = there[:batch]
        if change in ("nothing", "lengths"):
            before[batch:] = there[batch:]
        words.copy_(there)
        plan.bind({**roles, "O": wanted}, room).run()
        call = plan.bind({**roles, "O": found}, room)
        words.copy_(before)
        torch.cuda.synchronize()
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            late((1,), (1024,), (cupy.uint64(there.data_ptr()), cupy.uint64(words.data_ptr()),
                                 cupy.int64(words.numel())))
        call.run()
        torch.cuda.synchronize()
        assert torch.equal(found, wanted)


def test_what_is_written_is_never_settled():
    step = Step(1, 2, 1, 1024, 16)
    plan = attune.plan("b1,h8,hkv2,sq1,skv1024,d128,fp16,causal,seqused,page=16", "cuda", "decode")
    with pytest.raises(attune.Error, match="O: settled is 1"):
        plan.bind(step.arrays(step.there), settled=("O",)).run()
