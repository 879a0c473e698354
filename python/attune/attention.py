"""attune.sdpa: one call, any framework's arrays; plans are made on the way and kept."""
from __future__ import annotations

import ctypes as c
import math

from attune import fast, library, recent, tensors
from attune.library import Error, Problem, invalid
from attune.plans import Spares, align_of, context_of, flag, plan_for, whole
from attune.tensors import DTYPE_BYTES, View, framework_of

LAYOUTS = {"bhsd": (0, 1, 2, 3), "bshd": (0, 2, 1, 3)}  # where batch, head, sequence and dim are
TERMS = {"causal": False, "offset": None, "window": None, "softcap": None, "alibi": None, "sink": None, "seqused": None,
         "strict": False, "tf32": False, "return_lse": False, "out": None, "deterministic": False,
         "batch_invariant": False, "kernel": None, "stream": None}
OFFSETS = {None: 0, "br": 0, "tl": 1}
EXTRAS = {"SLOPES": "alibi", "SINK": "sink", "USED_KV": "seqused", "O": "out"}
ARGUMENTS = {"Q": "q", "K": "k", "V": "v", "MASK": "attn_mask", "BIAS": "attn_mask", "LSE": "lse", **EXTRAS}
BIAS_KINDS = {(False, False): 1, (True, False): 2, (False, True): 3, (True, True): 4}  # has (batch, heads)

TYPE_CHECKING = False  # type checkers take it for True; to load typing takes milliseconds
if TYPE_CHECKING:
    from typing import Any, TypedDict

    from typing_extensions import Unpack

    Array = Any  # of NumPy, PyTorch, or with __dlpack__

    class Terms(TypedDict, total=False):
        """What sdpa has besides PyTorch's arguments; its docstring says what each is."""
        causal: bool
        offset: int | str | None
        window: tuple[int | None, int | None] | None
        softcap: float | None
        alibi: Array | None
        sink: Array | None
        seqused: Array | None
        strict: bool
        tf32: bool
        return_lse: bool
        out: Array | None
        deterministic: bool
        batch_invariant: bool
        kernel: str | None
        stream: int | None


spares, latest = Spares(), recent.latest
fast_sdpa = fast_with_lse = None  # of attune._fast, once it has learned of a call


def serve(q: Array, k: Array, v: Array, *, attn_mask: Array | None = None, is_causal: bool = False,
          scale: float | None = None, enable_gqa: bool = False, layout: str = "bhsd",
          **terms: Unpack[Terms]) -> Array | tuple[Array, Array]:
    """Scaled dot-product attention: softmax(scale Q K^T + ...) V, on the arrays' own device.

    q [batch, heads_q, seqlen_q, dim], k [batch, heads_kv, seqlen_kv, dim], v [batch, heads_kv, seqlen_kv, dim_v], of
    float32, float16 or bfloat16; with layout="bshd" [batch, seqlen, heads, dim]. Dims are 1 ... 256. Arrays of NumPy
    (bfloat16 of ml_dtypes), PyTorch, or any with DLPack, all on one CPU or CUDA device, with any strides. Returns an
    array of the same kind, [batch, heads_q, seqlen_q, dim_v] in q's layout and dtype; a query that sees no key gives 0.

    attn_mask   bool, true where a key is seen, or floating, added to the scores; of a shape that broadcasts to
                [batch, heads_q, seqlen_q, seqlen_kv]
    is_causal   query i sees keys j <= i, as in PyTorch: aligned top-left
    scale       of the scores; None: 1 / sqrt(dim)
    enable_gqa  heads_q may be a multiple of heads_kv
    Terms:
    causal      query i sees keys j <= i + offset; offset None or "br": seqlen_kv - seqlen_q, "tl": 0, or a number
    window      (left, right): keys j with i + offset - left <= j <= i + offset + right; -1: no bound
    softcap     scores become softcap tanh(scores / softcap)
    alibi       float32 [heads_q]: slopes; scores lose slope |i + offset - j|
    sink        float32 [heads_q]: a logit that joins each row's denominator
    seqused     int32 [batch]: how many keys of each sequence there are
    strict      non-finite keys and values that a row does not see leave no trace in it, in any kernel
    tf32        float32 only: products need be no more exact than TF32's, of 11 significant bits
    return_lse  returns (O, LSE); LSE float32 [batch, heads_q, seqlen_q], the logarithm of the denominators
    out         where O is written, and what is returned
    deterministic, batch_invariant, kernel   as in attune.plan
    stream      a CUDA stream's handle; None: the framework's current one. On a CPU the result is complete at return

    Raises attune.Error, whose sentence names the argument, its value and the limit."""
    if latest and attn_mask is None and not terms:
        made = recent.serve(q, k, v, (type(q), is_causal, scale, enable_gqa, layout))
        if made is not None:
            return made
    framework, key = tensors.frameworks.get(type(q)) or tensors.known(q), None
    if framework is not None and attn_mask is None and not terms and type(k) is type(q) and type(v) is type(q):
        key = (framework.keys(q, k, v), is_causal, scale, enable_gqa, layout)
        kept, bound = spares.take(key)
        if bound is not None:
            one, two, three = framework.places(q, k, v)
            if one and two and three and not (one | two | three) & (bound.align - 1):
                made = bound.make_output(q)
                bound.run((one, two, three, framework.data(made)), None, framework, q)
                if bound.lessons is not None:
                    fast.learn(bound, kept, (q, k, v, is_causal, scale, enable_gqa, layout), (made,), False)
                kept.append(bound)
                return made
            kept.append(bound)
    elif framework is not None:
        arrays = arrays_of(q, k, v, attn_mask, terms)
        key = key_of(framework, arrays, attn_mask, (is_causal, scale, enable_gqa, layout), terms)
        kept, bound = ([], None) if key is None else spares.take(key)
        if bound is not None:
            at = [framework.data(array) for array in arrays]
            outputs = [terms.get("out")] if terms.get("out") is not None else [bound.make_output(q)]
            first = framework.data(outputs[0])
            if not (at[0] | at[1] | at[2] | first) & (bound.align - 1):
                if terms.get("out") is None:
                    at.append(first)
                if terms.get("return_lse"):
                    outputs.append(bound.make_lse(q))
                    at.append(framework.data(outputs[1]))
                try:
                    bound.run(at, terms.get("stream"), framework, q)
                except Error as error:
                    raise renamed(error, ARGUMENTS) from None
                kept.append(bound)
                return outputs[0] if len(outputs) == 1 else tuple(outputs)
            kept.append(bound)
    return Asked(q, k, v, attn_mask, is_causal, scale, enable_gqa, layout, terms).run(key)


if TYPE_CHECKING:
    sdpa = serve
else:

    def sdpa(q, k, v, **asked):  # what is bound one by one takes as long as C needs for all that it does with them
        if fast_sdpa is not None:
            made = fast_sdpa(q, k, v, asked)
            if made is not None:
                return made
        elif latest and not asked:
            made = recent.serve(q, k, v, (type(q), False, None, False, "bhsd"))
            if made is not None:
                return made
        return serve(q, k, v, **asked)

    sdpa.__doc__, sdpa.__wrapped__ = serve.__doc__, serve


PAIR, FLASH, CUDNN, ALONE = range(4)  # what with_lse gives, as C calls it


def with_lse(q, k, v, is_causal, scale, deterministic, form=PAIR, rest=None):
    """(O, LSE) as sdpa gives them, grouped heads allowed; who stands in for PyTorch calls this, often, and sees to
    gradients. form FLASH, CUDNN: O and rest(q, k, lse, form), what else this operator of PyTorch's gives: LSE, None,
    None, both lengths, three tensors or two and None. ALONE: as CUDNN, with None for all tensors but O."""
    if fast_with_lse is not None:
        made = fast_with_lse(q, k, v, is_causal, scale, deterministic, form)
        if made is not None:
            return made
    elif latest:
        made = recent.serve(q, k, v, (type(q), is_causal, scale, deterministic, form))
        if made is not None:
            return in_form(q, k, *made, form, rest)
    framework, kept, key, given = framework_of("q", q), None, None, (q, k, v)
    q, k, v = (t.detach() if t.requires_grad else t for t in (q, k, v))
    if type(k) is type(q) and type(v) is type(q):
        key = (framework.keys(q, k, v), is_causal, scale, deterministic, form, "with_lse")
        kept, bound = spares.take(key)
        if bound is not None:
            places = framework.places(q, k, v)
            if all(places) and not (places[0] | places[1] | places[2]) & (bound.align - 1):
                o, lse = bound.make_output(q), None if form == ALONE else bound.make_lse(q)
                outputs = [framework.data(o)] if lse is None else [framework.data(o), framework.data(lse)]
                bound.run((*places, *outputs), None, framework, q)
                made = in_form(q, k, o, lse, form, rest)
                if bound.lessons is not None:
                    fast.learn(bound, kept, (*given, is_causal, scale, deterministic, form), made, True)
                kept.append(bound)
                return made
            kept.append(bound)
    terms = {"return_lse": form != ALONE, "deterministic": deterministic}
    found = Asked(q, k, v, None, is_causal, scale, True, "bhsd", terms).run(key)
    return in_form(q, k, *((found, None) if form == ALONE else found), form, rest)


def in_form(q, k, o, lse, form, rest):
    """What with_lse gives."""
    if form == PAIR:
        return o, lse
    if form == ALONE:
        return o, None, None, None, q.shape[2], k.shape[2], None, None, None
    return o, *rest(q, k, lse, form)


def arrays_of(q, k, v, attn_mask, terms):
    """All arrays of a call, in the order in which Asked has them."""
    extras = [terms[name] for name in EXTRAS.values() if terms.get(name) is not None]
    return [q, k, v, *extras] if attn_mask is None else [q, k, v, *extras, attn_mask]


def key_of(framework, arrays, attn_mask, options, terms):
    """What calls of this kind have in common; None where no call is kept for them."""
    kind, out = type(arrays[0]), terms.get("out")
    if any([type(array) is not kind for array in arrays]) or (out is not None and not framework.is_writable(out)):
        return None
    names = EXTRAS.values()
    given = [(name, value is not None if name in names else value) for name, value in terms.items() if name != "stream"]
    return (options, attn_mask is not None, *given, *[framework.key(array) for array in arrays])


class Asked:
    """One call of sdpa, its arguments checked one by one."""

    def __init__(self, q, k, v, attn_mask, is_causal, scale, enable_gqa, layout, terms):
        for name in terms:
            if name not in TERMS:
                raise invalid(f"{name}: sdpa has no such argument{near(name)}")
        if not isinstance(layout, str) or layout not in LAYOUTS:
            raise invalid(f"layout: it is {layout!r}: {', '.join(LAYOUTS)} are allowed")
        self.order, self.layout, self.terms = LAYOUTS[layout], layout, {**TERMS, **terms}
        self.is_causal, self.enable_gqa = flag("is_causal", is_causal), flag("enable_gqa", enable_gqa)
        self.scale = None if scale is None else number("scale", scale)
        if self.scale == 0:
            raise invalid("scale is 0: every score would be")
        self.framework = framework_of("q", q)
        self.names = {"Q": "q", "K": "k", "V": "v"}
        self.arrays = {"Q": q, "K": k, "V": v}
        self.as_given = True  # nothing was copied
        self.names.update({role: name for role, name in EXTRAS.items() if self.terms[name] is not None})
        self.arrays.update({role: self.terms[name] for role, name in EXTRAS.items() if role in self.names})
        self.read(attn_mask)

    # ---- Arrays ----

    def read(self, attn_mask):
        if attn_mask is not None:
            self.names["MASK"], self.arrays["MASK"] = "attn_mask", attn_mask
        for role, array in self.arrays.items():
            if framework_of(self.names[role], array) is not self.framework:
                raise invalid(f"{self.names[role]}: it is of type {type(array).__name__}, and q of "
                              f"{type(self.arrays['Q']).__name__}: arrays of one framework are needed")
        self.views = {}
        for role in list(self.arrays):
            if role in ("Q", "K", "V"):
                self.views[role] = self.read_rows(role)
            elif role != "MASK":
                self.views[role] = self.framework.view(self.names[role], self.arrays[role])
        if "O" in self.views:
            self.views["O"] = self.logical("O", self.views["O"])
        self.check_sizes()
        if attn_mask is not None:
            self.read_mask()
        for role, view in self.views.items():
            if view.device != self.views["Q"].device:
                raise invalid(f"{self.names[role]}: it is on {tensors.place(view.device)}, and q on "
                              f"{tensors.place(self.views['Q'].device)}: one device is needed")

    def logical(self, role, view):
        """The view as [batch, head, sequence, dim]."""
        if len(view.shape) != 4:
            raise invalid(f"{self.names[role]}: its shape is {view.shape}: 4 dimensions are needed, "
                          f"[{', '.join(self.layout)}]")
        return View(self.in_layout(view.shape), self.in_layout(view.strides), view.dtype, view.device, view.writable)

    def read_rows(self, role):
        """The view of q, k or v, or of a copy where its strides are none that kernels take."""
        name = self.names[role]
        if not self.framework.is_whole(self.arrays[role]):
            self.replace(role, self.framework.copy(self.arrays[role]))
        view = self.logical(role, self.framework.view(name, self.arrays[role]))
        tensors.check_floats(name, view)
        if takes(view):
            return view
        self.replace(role, self.framework.copy(self.arrays[role]))
        return self.logical(role, self.framework.view(name, self.arrays[role]))

    def replace(self, role, copy):
        self.arrays[role], self.as_given = copy, False

    def read_mask(self):
        """A bool mask is MASK, a floating one BIAS; what it lacks of the four dimensions is repeated."""
        mask = self.arrays.pop("MASK")
        view, wanted = self.framework.view("attn_mask", mask), self.score_shape
        missing = 4 - len(view.shape)
        shape, fits = (1,) * missing + view.shape, missing >= 0
        if not fits or any(have not in (1, want) for have, want in zip(shape, wanted)):
            raise invalid(f"attn_mask: its shape is {view.shape}: one that broadcasts to {wanted} is needed, "
                          "[batch, heads_q, seqlen_q, seqlen_kv]")
        if shape[3] != wanted[3] or (shape[3] > 1 and view.strides[-1] != 1) or any(s < 0 for s in view.strides):
            mask = self.framework.repeat(mask, (*view.shape[:-1], wanted[3]) if view.shape else (wanted[3],))
            view, self.as_given = self.framework.view("attn_mask", mask), False
            missing = 4 - len(view.shape)
        role = "MASK" if view.dtype == tensors.BOOL else "BIAS"
        if role == "BIAS" and view.dtype not in (tensors.FP32, tensors.FP16, tensors.BF16):
            raise invalid(f"attn_mask: its dtype is {tensors.DTYPE_NAMES[view.dtype]}: bool or a floating one is "
                          "needed")
        self.names.pop("MASK")
        self.names[role], self.arrays[role] = "attn_mask", mask
        self.views[role] = View((1,) * missing + view.shape, (0,) * missing + view.strides, view.dtype, view.device)

    def check_sizes(self):
        q, k, v = (self.views[role].shape for role in "QKV")
        limits = (("k", "batch", k[0], "q", q[0]), ("v", "batch", v[0], "q", q[0]),
                  ("v", "heads", v[1], "k", k[1]), ("v", "seqlen", v[2], "k", k[2]), ("k", "dim", k[3], "q", q[3]))
        for name, size, have, other, want in limits:
            if have != want:
                raise invalid(f"{name}: its {size} is {have}, and {other}'s {want}")
        if q[1] != k[1]:
            if not self.enable_gqa:
                raise invalid(f"enable_gqa: q has {q[1]} heads and k {k[1]}, which needs enable_gqa=True")
            if k[1] == 0 or q[1] % k[1] != 0:
                raise invalid(f"k: its heads are {k[1]}: a divisor of q's {q[1]} is needed")
        self.shape = (q[0], q[1], q[2], v[3])
        self.score_shape = (q[0], q[1], q[2], k[2])
        if "O" in self.views:
            tensors.check_floats("out", self.views["O"])
        if "O" in self.views and not self.views["O"].writable:
            raise invalid("out: it is not writable")
        if "O" in self.views and self.views["O"].shape != self.shape:
            raise invalid(f"out: its shape is {self.in_layout(self.views['O'].shape)}: {self.in_layout(self.shape)} is "
                          "needed")

    def in_layout(self, shape):
        return tuple([shape[i] for i in self.order])

    # ---- Problem ----

    def problem(self):
        problem, terms, q, v = Problem(), self.terms, self.views["Q"], self.views["V"]
        library.default().c.attune_problem_init_sized(c.byref(problem), c.sizeof(problem))
        problem.dtype = q.dtype
        problem.batch, problem.heads_q, problem.seqlen_q, problem.head_dim_qk = q.shape
        _, problem.heads_kv, problem.seqlen_kv, problem.head_dim_v = v.shape
        for role, place in (("K", 1), ("V", 2), ("O", 3), ("BIAS", 5)):
            if role in self.views and self.views[role].dtype != q.dtype:
                problem.role_dtype[place] = self.views[role].dtype + 1
        problem.scale = self.scale or 0
        problem.softcap = 0 if terms["softcap"] is None else number("softcap", terms["softcap"])
        if terms["softcap"] is not None and problem.softcap <= 0:
            raise invalid(f"softcap is {terms['softcap']}: above 0 is needed")
        self.set_positions(problem)
        problem.layout = 1 if q.shape[1] > 1 and q.shape[2] > 1 and q.strides[1] < q.strides[2] else 0
        problem.mask, problem.alibi = "MASK" in self.views, "SLOPES" in self.views
        problem.sink, problem.seqused_kv = "SINK" in self.views, "USED_KV" in self.views
        problem.strict, problem.tf32 = flag("strict", terms["strict"]), flag("tf32", terms["tf32"])
        if "BIAS" in self.views:
            shape = self.views["BIAS"].shape
            problem.bias = BIAS_KINDS[shape[0] > 1, shape[1] > 1]
        return problem

    def set_positions(self, problem):
        terms, causal = self.terms, flag("causal", self.terms["causal"])
        if self.is_causal and (causal or terms["offset"] is not None):
            raise invalid("is_causal: it is aligned top-left, so that neither causal nor offset can be beside it")
        if terms["window"] is not None:
            problem.window_left, problem.window_right = self.window()
        if causal or self.is_causal:
            problem.window_right = 0
        offset = "tl" if self.is_causal else terms["offset"]
        if isinstance(offset, str) or offset is None:
            if offset not in OFFSETS:
                raise invalid(f"offset: it is {offset!r}: 'br', 'tl' or a number is needed")
            problem.offset_kind = OFFSETS[offset]
        else:
            problem.offset_kind, problem.offset = 2, whole("offset", offset, -2**31 + 1, 2**31 - 1)
        if problem.offset_kind == 1 and problem.seqlen_q == problem.seqlen_kv and "USED_KV" not in self.views:
            problem.offset_kind = 0  # the same, and what most kernels are for

    def window(self):
        window = self.terms["window"]
        if not isinstance(window, (tuple, list)) or len(window) != 2:
            raise invalid(f"window: it is {window!r}: (left, right) is needed")
        return [-1 if side is None else whole("window", side, -1, 2**31 - 1) for side in window]

    # ---- Running ----

    def make_output(self):
        if "O" not in self.arrays:
            self.names["O"] = "out"
            self.arrays["O"] = self.framework.empty(self.arrays["Q"], self.in_layout(self.shape))
            self.views["O"] = self.logical("O", self.framework.view("out", self.arrays["O"]))
        if flag("return_lse", self.terms["return_lse"]):
            self.names["LSE"] = "lse"
            self.arrays["LSE"] = self.framework.empty(self.arrays["Q"], self.shape[:3], tensors.FP32)
            self.views["LSE"] = self.framework.view("lse", self.arrays["LSE"])

    def alignment(self, pointers, default):
        """What pointers and strides of Q, K, V and O are multiples of, in bytes; at most what a problem promises."""
        bits = default
        for role, pointer in zip(self.arrays, pointers):
            if role in ("Q", "K", "V", "O"):
                view = self.views[role]
                size = DTYPE_BYTES[view.dtype]
                bits |= pointer
                for extent, stride in zip(view.shape[:3], view.strides):
                    bits |= stride * size if extent > 1 else 0
        return bits & -bits

    def bind(self, align):
        problem, terms, device = self.problem(), self.terms, self.views["Q"].device
        problem.align = align if align < align_of(problem) else 0
        if device is not None:
            self.framework.check_planning(device)
        context = context_of("cpu" if device is None else f"cuda:{device}")
        plan = plan_for(context, problem, terms["kernel"], flag("deterministic", terms["deterministic"]),
                        flag("batch_invariant", terms["batch_invariant"]))
        try:
            bound = plan.bind_views({role: self.views[role] for role in self.arrays})
        except Error as error:
            raise renamed(error, self.names) from None
        bound.make_output = self.framework.maker(self.arrays["Q"], self.in_layout(self.shape))
        bound.make_lse = self.framework.maker(self.arrays["Q"], self.shape[:3], tensors.FP32)
        bound.lessons = 0 if self.framework is tensors.Torch else None
        return bound

    def run(self, key):
        self.make_output()
        o = self.arrays["O"]
        if self.shape[0] > 0 and self.shape[1] > 0:
            if self.can_join_heads():
                self.join_heads()
            self.execute(key)
        return (o, self.arrays["LSE"]) if "LSE" in self.arrays else o

    def can_join_heads(self):
        """Whether one query's heads that share keys also share all that says which are seen. Kernels do not know that
        of a mask, and read keys for each head."""
        (_, heads, queries, dim), kv = self.views["Q"].shape, self.views["K"].shape
        masks = [self.views[role] for role in ("MASK", "BIAS") if role in self.views]
        return (on_device(self.views["Q"]) and queries == 1 and heads > kv[1] and kv[2] > 0 and
                any(mask.shape[1] == 1 for mask in masks) and not {"SLOPES", "SINK"} & self.views.keys() and
                not self.is_causal and not any([self.terms[name] for name in ("causal", "window", "kernel")]) and
                all(self.views[role].strides[1] >= self.views[role].shape[3] for role in "QO"))

    def join_heads(self):
        """These heads become queries of one: views alone change."""
        group = self.shape[1] // self.views["K"].shape[1]
        for role in {"Q", "O", "LSE"} & self.views.keys():
            view = self.views[role]
            (batch, heads, _, *dim), (apart, step, _, *unit) = view.shape, view.strides
            self.views[role] = View((batch, heads // group, group, *dim), (apart, step * group, step, *unit),
                                    view.dtype, view.device, view.writable)

    def execute(self, key):
        """Keeps the call for others of its kind: by `key`, as sdpa looks for it, where it is about these arrays."""
        pointers = [self.framework.data(array) for array in self.arrays.values()]
        rows = [self.views[role].shape[3] * DTYPE_BYTES[self.views[role].dtype] for role in ("Q", "K", "V", "O")]
        whole_rows = 16 | rows[0] | rows[1] | rows[2] | rows[3]
        align = self.alignment(pointers, 16)
        if key is None or not self.as_given or align < whole_rows & -whole_rows:
            key = self.full_key(align)
        kept, bound = spares.take(key)
        bound = bound or self.bind(align)
        try:
            bound.run(pointers, self.terms["stream"], self.framework, self.arrays["Q"])
        except Error as error:
            raise renamed(error, ARGUMENTS) from None
        kept.append(bound)

    def full_key(self, align):
        scalars = [self.terms[name] for name in ("causal", "offset", "softcap", "strict", "tf32", "deterministic",
                                                 "batch_invariant", "kernel", "return_lse")]
        window = None if self.terms["window"] is None else tuple(self.window())
        return (self.layout, align, self.is_causal, self.scale, window, *scalars,
                *((role, self.framework.key(array)) for role, array in self.arrays.items()))


def on_device(view):
    return view.device is not None


def renamed(error, names):
    """The error about a role, an element of it, or two that overlap, as one about the arguments that they came from."""
    import re
    first, overlap, rest = error.sentence.partition(" overlaps ")
    parts = [first, overlap, rest] if overlap else ["", "", first]
    role, other = (re.match(r"(?:[A-Z_]+\b)?", part)[0] for part in (parts[0], parts[2]))
    if other not in names or (overlap and role not in names):
        return error
    return Error(error.status, f"{names.get(role, '')}{overlap}{names[other]}{parts[2][len(other):]}")


def near(name):
    import difflib
    found = difflib.get_close_matches(name, [*TERMS, "attn_mask", "is_causal", "scale", "enable_gqa", "layout"], 1)
    return f": did you mean {found[0]}?" if found else f": {', '.join(TERMS)} are what it has besides PyTorch's"


def number(name, value):
    try:
        value = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise invalid(f"{name}: a number is needed: {error}") from None
    if not math.isfinite(value):
        raise invalid(f"{name} is {value}: a finite number is needed")
    return value


def takes(view):
    """Whether kernels take these strides: contiguous rows, further apart than they are long, or batches and heads that
    are all the same."""
    (batch, head, row, element), shape = view.strides, view.shape
    return ((shape[3] <= 1 or element == 1) and (shape[2] <= 1 or row >= shape[3]) and
            all(extent <= 1 or stride == 0 or stride >= shape[3] for extent, stride in
                ((shape[0], batch), (shape[1], head))))
