"""Contexts and plans: what attune.h calls by these names, over arrays of any framework."""
from __future__ import annotations

import ctypes as c
import os
import threading

from attune import library, roles, tensors
from attune.library import ROLES, Call, Options, PlanOptions, encoded, invalid

EFFORTS = {"estimate": 0, "measure": 1, "patient": 2, "wisdom-only": 3}
SPARE_CALLS = 256  # kinds of calls that a plan or attune.sdpa keeps ready


class Handle:
    """A context or a plan of the library's. What uses it holds it, and so it is destroyed after the last use, in
    whatever thread that was."""

    def __init__(self, pointer, destroy, *keep):
        self.pointer, self.destroy, self.keep = pointer, destroy, keep

    def __del__(self):
        self.destroy(self.pointer)


class Context:
    """Where plans are made and run: a target ("cpu", "cuda", "cuda:N"; None: $ATTUNE_TARGET, else cuda where usable,
    else cpu), its threads, its wisdom. attune.h says of attune_options what the rest are; None and 0 are the defaults.
    Errors: NO_DEVICE, NOT_FOUND, IO_ERROR, CORRUPT."""

    def __init__(self, target: str | None = None, kernel: str | None = None, *, isa: str | None = None,
                 threads: int = 0, wisdom=None, cache=None, pack=None, lib: library.Library | None = None):
        self.library = lib or library.default()
        if pack is None and "ATTUNE_PACK" not in os.environ:
            pack = self.library.pack
        texts = {"target": target, "kernel": kernel, "isa": isa, "wisdom": wisdom, "cache": cache, "pack": pack}
        options = Options(size=c.sizeof(Options), threads=whole("threads", threads, 0, 1024),
                          **{name: encoded(name, text) for name, text in texts.items()})
        pointer = c.c_void_p()
        self.library.check(self.library.c.attune_context_create(c.byref(options), c.byref(pointer)))
        self._handle = Handle(pointer, self.library.c.attune_context_destroy)
        self.target: str = self.library.c.attune_context_target(pointer).decode()
        number = (target or os.environ.get("ATTUNE_TARGET") or "").partition(":")[2]
        self.device = int(number or 0) if self.target.startswith("cuda/") else None

    @property
    def handle(self):
        if self._handle is None:
            raise invalid("this context is closed")
        return self._handle

    def close(self):
        """Lets go of it; plans made from it go on, and keep what they need."""
        self._handle = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def plan(self, text, effort: str = "estimate", kernel: str | None = None, deterministic: bool = False,
             batch_invariant: bool = False) -> Plan:
        """A plan for a problem, a text or a library.Problem."""
        return Plan(self, text, effort, kernel, deterministic, batch_invariant)

    def why_not(self, text: str, kernel: str) -> str:
        """Why the planner would not choose the kernel for the problem; "" where it is a candidate."""
        problem, why = self.library.problem(text), c.create_string_buffer(512)
        self.library.check(self.library.c.attune_why_not(self.handle.pointer, c.byref(problem),
                                                         encoded("kernel", kernel), why, len(why)))
        return why.value.decode()


def whole(name, value, least, most):
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise invalid(f"{name}: it is {value!r}: a whole number is needed")
    value = value.__index__()
    if not least <= value <= most:
        raise invalid(f"{name} is {value}: {least} ... {most} are allowed")
    return value


def flag(name, value):
    if type(value) is not bool:
        raise invalid(f"{name}: it is {value!r}: True or False is needed")
    return value


def stream_on(device, stream):
    """The handle of a stream that was given."""
    if device is None and stream:
        raise invalid(f"stream: it is {stream!r}, and a CPU has none")
    if not hasattr(stream, "__index__"):
        raise invalid(f"stream: it is of type {type(stream).__name__}: a handle is needed, a whole number such as the "
                      "cuda_stream of PyTorch's")
    return whole("stream", stream, 0, 2**64 - 1)


contexts = {}  # of this process, by target
opening = threading.Lock()


def context_of(target=None) -> Context:
    """The process's context for a target, opened when it is first asked for."""
    found = contexts.get(target)
    if found is None:
        with opening:
            found = contexts.get(target) or contexts.setdefault(target, Context(target))
    return found


families = {}  # of problems that differ in their lengths alone: {lengths: a plan}
FEW, FAMILIES, LENGTHS = 4, 64, 64  # lengths of a family that have plans of their own; how many are kept


def rounded(length):
    """Up, by an eighth at most."""
    step = 1 << max(length.bit_length() - 4, 0)
    return -(-length // step) * step


def plan_for(context, problem, kernel, deterministic, batch_invariant):
    """A plan that serves the problem. Where lengths are ever new, as those of a cache that grows, plans are for
    somewhat more than is asked and serve the next ones, too; where equal bits were promised each length has its own."""
    own = problem.seqlen_q, problem.seqlen_kv
    problem.seqlen_q = problem.seqlen_kv = 0
    family = (context.target, context.device, kernel, deterministic, batch_invariant, bytes(problem))
    problem.seqlen_q, problem.seqlen_kv = own
    kept = families.get(family)
    if kept is None:
        leave_room(families, FAMILIES)
        kept = families.setdefault(family, {})
    found, size = kept.get(own), own
    if found is None and len(kept) >= FEW and not (deterministic or batch_invariant):
        size = rounded(own[0]), rounded(own[1])
        found = kept.get(size)
    if found is None:
        problem.seqlen_q, problem.seqlen_kv = size
        leave_room(kept, LENGTHS)
        found = kept[size] = context.plan(problem, "estimate", kernel, deterministic, batch_invariant)
    return found


def renew_lock():
    global opening
    opening = threading.Lock()


os.register_at_fork(after_in_child=renew_lock)

# ---- A call that has been checked ----------------------------------------------------------------------------------


class Bound:
    """A call for arrays of one shape, strides and dtypes: only pointers, workspace and stream change. In use by one
    thread at a time."""
    __slots__ = ("plan", "pointer", "call", "arguments", "words", "places", "room", "align", "device", "execute",
                 "failure", "make_output", "make_lse", "lessons")

    def __init__(self, plan, call, roles):
        self.plan, self.pointer, self.call = plan.handle, plan.handle.pointer, call
        # NOTE: what byref gives is passed on as it is: half the time of arguments that are converted.
        self.arguments = c.byref(c.c_char.from_address(self.pointer.value)), c.byref(call)
        self.words = memoryview(call).cast("B").cast("Q")  # written to in a third of a structure's time
        self.places = [(Call.tensor.offset + ROLES.index(role) * c.sizeof(library.Tensor)) // 8 for role in roles]
        self.execute, self.failure = plan.library.execute, plan.library.failure
        self.align, self.device = plan.align, plan.device
        self.room = plan.workspace(call)
        # attune.sdpa: what makes O for a Q, and LSE, and how often attune._fast might have learned it
        self.make_output = self.make_lse = self.lessons = None

    def run(self, pointers, stream, framework, like):
        """Executes on data at `pointers`, in the order of the roles."""
        call, words, owner = self.call, self.words, None
        for place, pointer in zip(self.places, pointers):
            words[place] = pointer
        if stream is not None:
            call.stream = stream_on(self.device, stream)
        elif self.device is not None:
            call.stream = framework.stream(self.device)
        if self.room:
            owner, call.workspace = framework.room(self.room, like)
            call.workspace_bytes = self.room
        status = self.execute(*self.arguments)
        if status:
            raise self.failure(status)
        del owner  # on CUDA the framework gives this memory to work that is enqueued later only


def leave_room(kept, most):
    """Lets the oldest of a dictionary go: it has less than `most` then."""
    while len(kept) >= most:
        try:
            kept.pop(next(iter(kept)), None)
        except (StopIteration, RuntimeError):  # another thread is at it
            break


class Spares(dict):
    """Bound calls that nobody uses, in a list for each kind of call. What is popped of a list is in one hand alone,
    whatever other threads do."""

    def take(self, key):
        """(the list, a bound call of it); the call is None where all are in use, or none was made yet."""
        try:
            kept = self.get(key)
        except TypeError:  # an argument that is no key, and will be refused
            return [], None
        if kept is None:
            leave_room(self, SPARE_CALLS)
            kept = self.setdefault(key, [])
        try:
            return kept, kept.pop()
        except IndexError:
            return kept, None


# ---- Plans ---------------------------------------------------------------------------------------------------------


class Plan:
    """A kernel and its config, bound to a problem and a target. Any number of threads may run it at once."""

    def __init__(self, context: Context, problem, effort="estimate", kernel=None, deterministic=False,
                 batch_invariant=False):
        lib = self.library = context.library
        if effort not in EFFORTS:
            raise invalid(f"effort: it is {effort!r}: {', '.join(EFFORTS)} are allowed")
        self.problem = problem if isinstance(problem, library.Problem) else lib.problem(problem)
        options = PlanOptions(size=c.sizeof(PlanOptions), effort=EFFORTS[effort],
                              deterministic=flag("deterministic", deterministic),
                              batch_invariant=flag("batch_invariant", batch_invariant),
                              kernel=encoded("kernel", kernel))
        pointer, used = c.c_void_p(), context.handle
        lib.check(lib.c.attune_plan_create(used.pointer, c.byref(self.problem), c.byref(options), c.byref(pointer)))
        self._handle = Handle(pointer, lib.c.attune_plan_destroy, used)
        self.kernel: str = lib.c.attune_plan_kernel(pointer).decode()
        self.origin: str = lib.c.attune_plan_origin(pointer).decode()
        self.text: str = lib.print(self.problem)
        self.device, self.spares = context.device, Spares()
        template = self.template = Call()
        lib.check(lib.c.attune_call_init_sized(c.byref(template), c.byref(self.problem), c.sizeof(template)))
        self.roles, self.optional = roles.roles_of(self.problem)
        self.written, self.align = roles.written(self.problem), align_of(self.problem)

    @property
    def handle(self):
        if self._handle is None:
            raise invalid("this plan is closed")
        return self._handle

    @property
    def closed(self):
        return self._handle is None

    def close(self):
        """Lets go of it: it can be run no more. What runs in other threads runs to its end."""
        self._handle = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __repr__(self):
        return f"<attune.Plan {self.text}: {self.kernel}, {self.origin}>"

    def __reduce__(self):
        raise invalid("a plan is its process's own, neither to be copied nor to be sent to another: attune.plan("
                      f"{self.text!r}) makes it again")

    def workspace(self, call=None) -> int:
        """Bytes of workspace that one call takes; without a call, that the largest takes. `run` sees to them."""
        size = c.c_size_t()
        if call is not None and not isinstance(call, Call):
            raise invalid(f"call: it is of type {type(call).__name__}: a library.Call is needed")
        self.library.check(self.library.c.attune_plan_workspace(self.handle.pointer, call and c.byref(call),
                                                                c.byref(size)))
        return size.value

    # ---- Checking ----

    def check_roles(self, views):
        """That what is needed is given, nothing else is, and everything has as many dimensions as its role."""
        for name in self.roles:
            if name not in views and name not in self.optional:
                raise invalid(f"{name}: it is missing, and the problem {self.text} needs it")
        for name, view in views.items():
            role = self.role(name)
            if len(view.shape) != len(role.names):
                raise invalid(f"{name}: its shape is {view.shape}: {len(role.names)} dimensions are needed, "
                              f"{role.text}")

    def role(self, name):
        role = self.roles.get(name)
        if role is None:
            raise invalid(f"{name} is given, but the problem {self.text} has none" if name in ROLES else
                          f"{name}: there is no such role: {', '.join(self.roles)}")
        return role

    def check_view(self, name, view, sizes):
        role = self.roles[name]
        wanted = roles.wanted_shape(self.problem, role, sizes)
        repeats = len(wanted) - 1 if name in roles.REPEATED else 0
        if any([have != want and not (have == 1 and i < repeats) for i, (have, want) in
                enumerate(zip(view.shape, wanted))]):
            raise invalid(f"{name}: its shape is {view.shape}: {wanted} is needed, {role.text}")
        dtype = self.template.tensor[role.index].dtype
        if view.dtype != dtype:
            raise invalid(f"{name}: its dtype is {tensors.DTYPE_NAMES[view.dtype]}: {tensors.DTYPE_NAMES[dtype]} is "
                          "needed")
        if view.device != self.device:
            raise invalid(f"{name}: it is on {tensors.place(view.device)}: this plan is for "
                          f"{tensors.place(self.device)}")
        if name in self.written and not view.writable:
            raise invalid(f"{name}: it is not writable")
        if role.places[-1] == roles.INNER and view.shape[-1] > 1 and view.strides[-1] != 1:
            raise invalid(f"{name}: the stride of its last dimension is {view.strides[-1]} elements: 1 is needed")

    # ---- Binding ----

    def bind_views(self, views, offset=None) -> Bound:
        """A call for arrays like these, {role: View}, checked. Its pointers are in the order of `views`."""
        self.check_roles(views)
        sizes = roles.sizes_of(self.problem, self.roles, views)
        for name, view in views.items():
            self.check_view(name, view, sizes)
        call = Call.from_buffer_copy(self.template)
        for name in roles.SIZES:
            setattr(call, name, sizes[name])
        if offset is not None:
            if self.problem.offset_kind != 2:
                raise invalid(f"offset: the problem {self.text} has no number of its own to replace")
            call.offset = whole("offset", offset, -2**31 + 1, 2**31 - 1)
        for name, view in views.items():
            roles.fill(call, self.roles[name], view)
        return Bound(self, call, views)

    def bind(self, arrays: dict, workspace=None, stream: int | None = None, offset: int | None = None,
             settled: tuple = ()) -> BoundCall:
        """A call on {role: array}, checked, to be run as often as you like: `bind(...).run()`. It holds its arrays.
        settled: roles of which is promised that nothing writes them which may still be running when a call begins, but
        for the last rows of K and V (docs/calling.md). The other arguments are those of `run`."""
        return BoundCall(self, arrays, workspace, stream, offset, settled)

    def run(self, *, stream: int | None = None, workspace=None, offset: int | None = None, **given):
        """Runs the plan on arrays by role: plan.run(Q=q, K=k, V=v). Shapes are [batch, heads, seqlen, dim] in this
        order whatever the layout, which strides say; of varlen problems [total, heads, dim]; docs/calling.md lists all.
        Sizes may be smaller than the problem's. Returns O, which is made where it is not given; with LSE=True, or an
        array, (O, LSE); of append (K, V), which are written.

        stream: a CUDA stream's handle; None: the one that is current in the arrays' framework. On a CPU, O is complete
        when this returns. workspace: an array of at least `workspace()` bytes, 256-byte aligned, which no other call
        uses meanwhile; None: one is made. offset: replaces the problem's number. INVALID_ARGUMENT: the sentence names
        the role."""
        if self.closed:
            raise invalid("this plan is closed")
        arrays = {role.upper(): array for role, array in given.items() if array is not None}
        if len(arrays) < len(given):
            check_once(given)
        wants_lse = arrays.pop("LSE") if isinstance(arrays.get("LSE"), bool) else False
        like = self.leading(arrays)
        framework = tensors.framework_of(like, arrays[like])
        if "O" in self.roles and ("O" not in arrays or wants_lse):
            self.make_outputs(framework, like, arrays, wants_lse)
        if workspace is None:
            self.run_kept(framework, arrays, stream, offset)
        else:
            self.bind(arrays, workspace, stream, offset).run()
        outputs = [arrays[role] for role in self.written if role in arrays]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def leading(self, arrays):
        """The role whose array says the framework, and the shape and order of outputs."""
        name = next(iter(self.roles))
        if name not in arrays:
            raise invalid(f"{name}: it is missing, and the problem {self.text} needs it")
        return name

    def run_kept(self, framework, arrays, stream, offset):
        """By a call that was checked for other arrays of the same kind, where there is one."""
        readers = [tensors.framework_of(role, array) for role, array in arrays.items()]
        key = (offset, *[(role, reader.key(array)) for reader, (role, array) in zip(readers, arrays.items())])
        kept, bound = self.spares.take(key)
        if bound is None or not all([reader.is_writable(arrays[role]) for role, reader in zip(arrays, readers)
                                     if role in self.written]):
            bound = BoundCall(self, arrays, None, stream, offset).make()
        bound.run([reader.data(array) for reader, array in zip(readers, arrays.values())], stream, framework,
                  next(iter(arrays.values())))
        kept.append(bound)

    def make_outputs(self, framework, like, arrays, wants_lse):
        array, role = arrays[like], self.roles[like]
        shape = framework.shape(like, array)
        if len(shape) != len(role.names):
            raise invalid(f"{like}: its shape is {shape}: {len(role.names)} dimensions are needed, {role.text}")
        known = {**dict(zip(role.names, shape)), "head_dim_v": self.problem.head_dim_v}
        if "O" not in arrays:
            first, own = self.template.tensor[role.index].dtype, self.template.tensor[ROLES.index("O")].dtype
            if first != own or like != "Q":
                raise invalid("O: it is missing, and is made only where Q is given, of its dtype")
            arrays["O"] = framework.empty(array, [known[name] for name in self.roles["O"].names])
        if wants_lse:
            arrays["LSE"] = framework.empty(array, [known[name] for name in self.roles["LSE"].names], tensors.FP32)


def check_once(given):
    """That a role has one of its two names, in capitals or not."""
    names = [name for name, array in given.items() if array is not None]
    for name in names:
        if name != name.upper() and name.upper() in names:
            raise invalid(f"{name}: {name.upper()} is given, too, which is the same role")


class BoundCall:
    """What Plan.bind made: a plan, and the arrays that it runs on."""

    def __init__(self, plan, arrays, workspace=None, stream=None, offset=None, settled=()):
        if not isinstance(arrays, dict):
            raise invalid(f"arrays: it is of type {type(arrays).__name__}: a dictionary {{role: array}} is needed")
        for name in [*arrays, *settled]:
            plan.role(name)
        self.settled = [ROLES.index(name) for name in settled]
        plan.leading(arrays)
        self.plan, self.arrays, self.stream, self.offset = plan, dict(arrays), stream, offset
        self.frameworks = {role: tensors.framework_of(role, array) for role, array in self.arrays.items()}
        self.workspace = workspace
        bound = self.make()
        self.key = self.kinds()
        self.free = [bound]

    def kinds(self):
        return [self.frameworks[role].key(array) for role, array in self.arrays.items()]

    def make(self):
        views = {role: self.frameworks[role].view(role, array) for role, array in self.arrays.items()}
        bound = self.plan.bind_views(views, self.offset)
        for role in self.settled:
            bound.call.tensor[role].settled = 1
        if self.workspace is not None:
            bound.room = 0
            bound.call.workspace_bytes = bytes_of(self.workspace)
            bound.call.workspace = tensors.framework_of("workspace", self.workspace).data(self.workspace)
        return bound

    def run(self):
        """Executes it; see Plan.run."""
        if self.plan.closed:
            raise invalid("this plan is closed")
        if self.kinds() != self.key:
            raise invalid("an array has another shape, strides, dtype or device than when it was bound")
        try:
            bound = self.free.pop()
        except IndexError:  # another thread has it
            bound = self.make()
        like = self.plan.leading(self.arrays)
        bound.run([self.frameworks[role].data(array) for role, array in self.arrays.items()],
                  self.stream, self.frameworks[like], self.arrays[like])
        self.free.append(bound)


def bytes_of(array):
    size = getattr(array, "nbytes", None)
    if not isinstance(size, int):
        raise invalid(f"workspace: its type {type(array).__name__} has no nbytes")
    return size


def align_of(problem):
    """Bytes that pointers and strides of Q, K, V and O are multiples of, as the library has it."""
    sizes = [tensors.DTYPE_BYTES[problem.role_dtype[i] - 1 if problem.role_dtype[i] else problem.dtype]
             for i in range(4)]
    rows = [(problem.head_dim_qk if i < 2 else problem.head_dim_v) * size for i, size in enumerate(sizes)]
    whole_rows = 16
    for row in rows:
        whole_rows |= row
    return max(problem.align or whole_rows & -whole_rows, *sizes)


def plan(text: str, target: str | None = None, kernel: str | None = None, effort: str = "estimate", *,
         deterministic: bool = False, batch_invariant: bool = False) -> Plan:
    """A plan for a problem's text form, such as "b2,h32,hkv8,s4096,d128,bf16,causal" (docs/problems.md). Sizes are
    maxima: one plan serves every call that does not exceed them.

    target: "cpu", "cuda", "cuda:N"; None: $ATTUNE_TARGET, else cuda where usable, else cpu. kernel: "NAME" or
    "NAME:PARAM=VALUE,..."; None: the planner chooses. effort: "estimate", "measure" (up to seconds), "patient" (up to
    minutes), "wisdom-only". deterministic: equal inputs give equal bits. batch_invariant: a sequence's bits do not
    depend on its neighbours. Errors: INVALID_PROBLEM names the term; UNSUPPORTED, NOT_FOUND, NO_DEVICE."""
    return context_of(target).plan(text, effort, kernel, deterministic, batch_invariant)
