/* attune._fast: calls of attune.sdpa on PyTorch's tensors of a kind that has been seen, without Python's code on the
 * way. It is built against neither PyTorch nor libattune: tensors are read by DLPack's table of C functions, which
 * their type has, and attune/fast.py brings all other functions. What it does not know, or what is not as it was, is
 * left to Python: the answer is None then, and nothing has been done. */
#include "fast_tensors.h"

#include <stdlib.h>
#include <string.h>

#include "attune/attune.h"

static PyObject *held(PyObject *object)
{
    Py_INCREF(object);
    return object;
}

/* ---- What has been seen ------------------------------------------------------------------------------------------ */

enum { Q, K, V, INPUTS };
enum { O, LSE, OUTPUTS = 5 }; /* behind LSE: what the operator of PyTorch's that attune stands in for gives besides */
enum { SETS = 256, WAYS = 2, GIVEN = 7 };

/* What with_lse gives: attention.py says of each what it is. */
enum { PAIR, FLASH, CUDNN, ALONE, FORMS };

/* Bits of `form.options`. */
enum {
    IS_CAUSAL = 1 << 0,
    ENABLE_GQA = 1 << 1,
    BSHD = 1 << 2,
    WITH_LSE = 1 << 3, /* what stands in for PyTorch's kernels asks: grouped heads, O and LSE */
    DETERMINISTIC = 1 << 4,
    HAS_SCALE = 1 << 5,
    FORM = 1 << 6 /* times PAIR, FLASH or CUDNN */
};

/* All that calls of a kind have in common. No padding: it is compared as bytes. */
typedef struct {
    layout of[INPUTS];
    int64_t scale; /* a double's bits */
    int64_t options;
} form;

typedef struct {
    form key;
    maker make[OUTPUTS + 1]; /* the last is the workspace's */
    int outputs;             /* how many there are */
    int users;               /* the table, and calls under way */
    bool busy;               /* `call` is one of theirs */
    attune_call call;
    const attune_plan *plan;
    PyObject *makers, *hold; /* what the functions belong to, and the plan */
    uintptr_t align;         /* pointers are multiples of align + 1 */
    int64_t room;            /* bytes of workspace */
} kind;

typedef struct {
    PyObject_HEAD const dl_exchange *exchange;
    PyObject *capsule, *tensor_type, *parameter_type, *requires_grad, *is_neg, *fail;
    attune_status (*execute)(const attune_plan *, const attune_call *);
    /* PyTorch's own: whether a tensor's sign is pending, whether its TensorImpl wants a gradient. */
    bool (*negated)(const void *tensor);
    bool (*wants)(const void *impl);
    size_t place; /* of the tensor in its Python object, in bytes; 0: unknown, and Python is asked */
    spares spares;
    kind *sets[SETS][WAYS]; /* the one that was seen last first */
} table;

static void forget(kind *it)
{
    if (it && --it->users == 0) {
        for (int i = 0; i < it->outputs; ++i) {
            at_fast_drop_spare(&it->make[i]);
        }
        Py_XDECREF(it->hold);
        Py_XDECREF(it->makers);
        free(it);
    }
}

static size_t set_of(const form *key)
{
    uint64_t hash = 0, factor = 0x9E3779B97F4A7C15u, word;
    for (size_t at = 0; at < sizeof *key; at += sizeof word) { /* no product waits for another */
        memcpy(&word, (const char *)key + at, sizeof word);
        hash += word * factor;
        factor += 0xA24BAED4963EE406u; /* even: all factors are odd */
    }
    hash = (hash ^ hash >> 32) * 0x9E3779B97F4A7C15u;
    return (size_t)(hash >> 40) % SETS;
}

static kind *find(table *self, const form *key)
{
    kind **set = self->sets[set_of(key)];
    for (int way = 0; way < WAYS; ++way) {
        if (set[way] && memcmp(&set[way]->key, key, sizeof *key) == 0) {
            kind *found = set[way];
            set[way] = set[0];
            return set[0] = found;
        }
    }
    return NULL;
}

/* Takes `it`; the set's other one stays. */
static void keep(table *self, kind *it)
{
    kind **set = self->sets[set_of(&it->key)], *old = find(self, &it->key);
    if (old) {
        set[0] = it;
    } else {
        old = set[WAYS - 1];
        memmove(set + 1, set, (WAYS - 1) * sizeof *set);
        set[0] = it;
    }
    forget(old); /* last: what it lets go of may run anything */
}

/* ---- Reading tensors --------------------------------------------------------------------------------------------- */

/* Whether it is surely false. */
static bool is_false(PyObject *answer)
{
    bool no = answer == Py_False;
    Py_XDECREF(answer);
    if (!answer) {
        PyErr_Clear();
    }
    return no;
}

/* Whether a tensor's sign is not pending, and no gradient is wanted of it unless who calls sees to that. */
static bool is_plain(table *self, PyObject *object, bool may_want)
{
    if (self->place) {
        void *const *tensor = (void *const *)((const char *)object + self->place);
        return *tensor && !self->negated(tensor) && (may_want || !self->wants(*tensor));
    }
    return (may_want || is_false(PyObject_GetAttr(object, self->requires_grad))) &&
           is_false(PyObject_CallFunctionObjArgs(self->is_neg, object, NULL));
}

/* A plain tensor with memory; false for everything else. */
static bool read_tensor(table *self, PyObject *object, bool may_want, layout *at, void **data)
{
    PyObject *type = (PyObject *)Py_TYPE(object);
    return (type == self->tensor_type || type == self->parameter_type) &&
           at_fast_view(self->exchange, object, at, data) && *data && at->dims == DIMS &&
           is_plain(self, object, may_want);
}

static bool read_flag(PyObject *given, int64_t bit, int64_t *options)
{
    *options |= given == Py_True ? bit : 0;
    return given == Py_True || given == Py_False;
}

static bool read_number(PyObject *given, int64_t unit, int64_t *options)
{
    long number = PyLong_Check(given) ? PyLong_AsLong(given) : -1;
    if (number < 0 || number >= FORMS) {
        PyErr_Clear();
        return false;
    }
    *options |= number * unit;
    return true;
}

static bool read_scale(PyObject *given, form *key)
{
    double scale = PyFloat_Check(given) ? PyFloat_AsDouble(given) : 0.0;
    memcpy(&key->scale, &scale, sizeof scale);
    key->options |= given == Py_None ? 0 : HAS_SCALE;
    return given == Py_None || PyFloat_Check(given);
}

static bool read_layout(PyObject *given, int64_t *options)
{
    if (!PyUnicode_Check(given) || PyUnicode_CompareWithASCIIString(given, "bhsd") == 0) {
        return PyUnicode_Check(given);
    }
    *options |= BSHD;
    return PyUnicode_CompareWithASCIIString(given, "bshd") == 0;
}

/* attune.sdpa's is_causal, scale, enable_gqa, layout, or what with_lse is asked: is_causal, scale, deterministic, form.
 */
static bool read_options(PyObject *const *given, bool with_lse, form *key)
{
    return read_flag(given[0], IS_CAUSAL, &key->options) && read_scale(given[1], key) &&
           read_flag(given[2], with_lse ? DETERMINISTIC : ENABLE_GQA, &key->options) &&
           (with_lse ? read_number(given[3], FORM, &key->options) : read_layout(given[3], &key->options));
}

static bool is_called(PyObject *name, const char *text)
{
    return PyUnicode_CompareWithASCIIString(name, text) == 0;
}

/* One of attune.sdpa's arguments by its name; false for those that are none of these. */
static bool read_named(PyObject *name, PyObject *value, form *key)
{
    if (is_called(name, "is_causal")) {
        return read_flag(value, IS_CAUSAL, &key->options);
    }
    if (is_called(name, "enable_gqa")) {
        return read_flag(value, ENABLE_GQA, &key->options);
    }
    if (is_called(name, "scale")) {
        return read_scale(value, key);
    }
    return is_called(name, "layout") ? read_layout(value, &key->options)
                                     : value == Py_None && is_called(name, "attn_mask");
}

static bool read_all_named(PyObject *named, form *key)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;
    bool fine = PyDict_Check(named);
    while (fine && PyDict_Next(named, &at, &name, &value)) {
        fine = read_named(name, value, key);
    }
    return fine;
}

/* (q, k, v, and four options), or (q, k, v, a dictionary of attune.sdpa's arguments). */
static bool read_form(table *self, PyObject *const *given, Py_ssize_t count, bool with_lse, form *key, void **data)
{
    key->scale = 0;
    key->options = with_lse ? WITH_LSE : 0;
    bool fine = count == GIVEN ? read_options(given + INPUTS, with_lse, key) : read_all_named(given[INPUTS], key);
    for (int i = 0; fine && i < INPUTS; ++i) {
        fine = read_tensor(self, given[i], with_lse, &key->of[i], &data[i]);
    }
    return fine;
}

/* The memory that the call works in, its owner in *owner. */
static bool make_room(table *self, kind *now, attune_call *call, PyObject *like, PyObject **owner)
{
    enum { ALIGN = 256 };
    void *data;
    if (now->room == 0) {
        return true;
    }
    *owner = at_fast_make(self->exchange, &now->make[now->outputs], like, &data);
    if (!*owner) {
        return false;
    }
    call->workspace = (void *)(((uintptr_t)data + ALIGN - 1) & ~(uintptr_t)(ALIGN - 1));
    call->workspace_bytes = (size_t)now->room;
    return true;
}

/* ---- Calls ------------------------------------------------------------------------------------------------------- */

static bool execute(table *self, const attune_plan *plan, const attune_call *call)
{
    attune_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = self->execute(plan, call);
    Py_END_ALLOW_THREADS;
    if (status != ATTUNE_OK) {
        Py_XDECREF(PyObject_CallFunction(self->fail, "i", (int)status));
    }
    return status == ATTUNE_OK;
}

/* What is given back: O; (O, LSE); or all that the operator which attune stands in for gives. */
static PyObject *answer_of(const kind *now, PyObject *const *made)
{
    int64_t options = now->key.options;
    if (!(options & WITH_LSE)) {
        return held(made[O]);
    }
    if (options / FORM == PAIR) {
        return PyTuple_Pack(2, made[O], made[LSE]);
    }
    PyObject *given[OUTPUTS];
    for (int i = 0; i < OUTPUTS; ++i) {
        given[i] = made[i] ? made[i] : Py_None;
    }
    return Py_BuildValue("OOOOLLOOO", given[O], given[LSE], Py_None, Py_None, (long long)now->key.of[Q].shape[2],
                         (long long)now->key.of[K].shape[2], given[2], given[3], given[4]);
}

/* Outputs from `first` to before `last`, their addresses in `data`. */
static bool make_outputs(table *self, kind *now, int first, int last, PyObject *q, PyObject **made, void **data)
{
    for (int i = first; i < last; ++i) {
        made[i] = made[i] ? made[i] : at_fast_make(self->exchange, &now->make[i], q, &data[i]);
        if (!made[i]) {
            return false;
        }
    }
    return true;
}

/* Fills in `call`, and does it. */
static bool launch(table *self, kind *now, attune_call *call, PyObject *q, void *const *data, void *const *out)
{
    PyObject *owner = NULL;
    bool done = make_room(self, now, call, q, &owner);
    if (done) {
        call->tensor[ATTUNE_Q].data = data[Q];
        call->tensor[ATTUNE_K].data = data[K];
        call->tensor[ATTUNE_V].data = data[V];
        call->tensor[ATTUNE_O].data = out[O];
        call->tensor[ATTUNE_LSE].data = out[LSE];
        done = execute(self, now->plan, call);
    }
    Py_XDECREF(owner);
    return done;
}

/* One call, with its outputs. What the kernel does not write, and what is for a later call, is made while it works. */
static bool run(table *self, kind *now, attune_call *call, PyObject *q, void *const *data, PyObject **made)
{
    const bool on_device = now->key.of[Q].device_type == DL_CUDA;
    const int written = now->outputs > LSE ? LSE + 1 : 1;
    void *out[OUTPUTS] = {NULL};
    if (on_device && self->exchange->current_stream(DL_CUDA, now->key.of[Q].device, &call->stream) != 0) {
        return false;
    }
    const bool ahead = on_device && at_fast_may_spare(&self->spares, call->stream);
    for (int i = O; ahead && i < written; ++i) {
        made[i] = at_fast_take_spare(&self->spares, &now->make[i], &out[i]);
    }
    if (!make_outputs(self, now, O, written, q, made, out) || !launch(self, now, call, q, data, out) ||
        !make_outputs(self, now, written, now->outputs, q, made, out)) {
        return false;
    }
    for (int i = O; ahead && i < written; ++i) {
        at_fast_make_spare(&self->spares, self->exchange, &now->make[i]);
    }
    return true;
}

/* A call of a kind that is known. While Python runs, or the library, others may call, and the kind may be let go. */
static PyObject *serve_kind(table *self, kind *now, PyObject *q, void *const *data)
{
    attune_call copy, *call = &now->call;
    PyObject *made[OUTPUTS] = {NULL}, *answer = NULL;
    const bool owns = !now->busy;
    if (!owns) {
        copy = now->call;
        call = &copy;
    }
    ++now->users;
    now->busy = true;
    if (run(self, now, call, q, data, made)) {
        answer = answer_of(now, made);
    }
    now->busy = now->busy && !owns;
    for (int i = 0; i < now->outputs; ++i) {
        Py_XDECREF(made[i]);
    }
    forget(now);
    return answer;
}

static PyObject *serve(table *self, PyObject *const *given, Py_ssize_t count, bool with_lse)
{
    form key;
    void *data[INPUTS];
    kind *found;
    if (count != GIVEN && (with_lse || count != INPUTS + 1)) {
        PyErr_SetString(PyExc_TypeError, "seven arguments are needed, or four");
        return NULL;
    }
    if (!read_form(self, given, count, with_lse, &key, data) || !(found = find(self, &key)) ||
        (((uintptr_t)data[Q] | (uintptr_t)data[K] | (uintptr_t)data[V]) & found->align)) {
        Py_RETURN_NONE;
    }
    return serve_kind(self, found, given[Q], data);
}

static PyObject *table_sdpa(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    return serve((table *)self, given, count, false);
}

static PyObject *table_with_lse(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    return serve((table *)self, given, count, true);
}

static bool read_makers(table *self, PyObject *makers, PyObject *made, PyObject *q, kind *it)
{
    static const int count[FORMS] = {[PAIR] = 2, [FLASH] = OUTPUTS, [CUDNN] = OUTPUTS - 1, [ALONE] = 1};
    int wanted = it->key.options & WITH_LSE ? count[it->key.options / FORM] : 1;
    it->outputs = (int)PyTuple_Size(made);
    bool fine = it->outputs == wanted &&
                at_fast_read_maker(self->exchange, PyTuple_GetItem(makers, wanted), q, &it->make[wanted]);
    for (int i = 0; fine && i < wanted; ++i) {
        fine = at_fast_read_maker(self->exchange, PyTuple_GetItem(makers, i), PyTuple_GetItem(made, i), &it->make[i]);
    }
    return fine;
}

/* learn(given, made, plan, call, align, room, makers, hold): calls of this kind are served from now on. `given`: the
 * seven arguments of the call that was served by Python; `made`: O, LSE and what else it gave; `call`: bytes of its
 * attune_call; `plan`: an address. False where it cannot be kept. */
static PyObject *table_learn(PyObject *object, PyObject *arguments)
{
    table *self = (table *)object;
    PyObject *given, *made, *call, *makers, *hold, *of[GIVEN];
    unsigned long long plan;
    long long align, room;
    void *data[INPUTS];
    char *bytes;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(arguments, "O!O!KO!LLO!O", &PyTuple_Type, &given, &PyTuple_Type, &made, &plan, &PyBytes_Type,
                          &call, &align, &room, &PyTuple_Type, &makers, &hold) ||
        PyBytes_AsStringAndSize(call, &bytes, &size) != 0) {
        return NULL;
    }
    if (PyTuple_Size(given) != GIVEN || PyTuple_Size(makers) != PyTuple_Size(made) + 1 || size != sizeof(attune_call) ||
        align < 1) {
        PyErr_SetString(PyExc_ValueError,
                        "seven arguments, a maker for all that is made and a call of this library are "
                        "needed");
        return NULL;
    }
    for (int i = 0; i < GIVEN; ++i) {
        of[i] = PyTuple_GetItem(given, i);
    }
    bool with_lse = PyLong_Check(of[GIVEN - 1]) != 0;
    kind *it = calloc(1, sizeof *it);
    if (!it) {
        return PyErr_NoMemory();
    }
    if (!read_form(self, of, GIVEN, with_lse, &it->key, data) || !read_makers(self, makers, made, of[Q], it)) {
        free(it);
        return PyErr_Occurred() ? NULL : held(Py_False);
    }
    memcpy(&it->call, bytes, sizeof it->call);
    it->plan = (const attune_plan *)(uintptr_t)plan;
    it->align = (uintptr_t)align - 1;
    it->room = room;
    it->makers = held(makers);
    it->hold = held(hold);
    it->users = 1;
    keep(self, it);
    Py_RETURN_TRUE;
}

/* Where in the Python object of a tensor, of `size` bytes, its TensorImpl is said; 0 where that is not in one place. */
static size_t place_in(const PyObject *tensor, size_t size, const void *impl)
{
    size_t found = 0;
    for (size_t at = sizeof(PyObject); at + sizeof impl <= size; at += sizeof impl) {
        if (memcmp((const char *)tensor + at, &impl, sizeof impl) == 0) {
            found = found == 0 ? at : size;
        }
    }
    return found < size ? found : 0;
}

/* read_by(negated, wants, tensor, size, impl): addresses of PyTorch's functions that say of a tensor whether its sign
 * is pending, and of its TensorImpl whether it wants a gradient; a tensor, its Python object of `size` bytes and its
 * TensorImpl at `impl`. False where a TensorImpl is not found in that, and Python is asked. */
static PyObject *table_read_by(PyObject *object, PyObject *arguments)
{
    table *self = (table *)object;
    PyObject *tensor;
    unsigned long long negated, wants, size, impl;
    if (!PyArg_ParseTuple(arguments, "KKOKK", &negated, &wants, &tensor, &size, &impl)) {
        return NULL;
    }
    self->negated = (bool (*)(const void *))(uintptr_t)negated;
    self->wants = (bool (*)(const void *))(uintptr_t)wants;
    self->place = negated && wants && impl ? place_in(tensor, (size_t)size, (const void *)(uintptr_t)impl) : 0;
    return PyBool_FromLong(self->place != 0);
}

/* is_plain(tensor): what has no sign pending and wants no gradient; for looking at what read_by found. */
static PyObject *table_is_plain(PyObject *object, PyObject *tensor)
{
    return PyBool_FromLong(is_plain((table *)object, tensor, false));
}

/* spare_by(inference, pools): addresses of PyTorch's function that says whether it is in inference mode, and of the
 * number of the next pool; from now on there are spares. */
static PyObject *table_spare_by(PyObject *object, PyObject *arguments)
{
    table *self = (table *)object;
    unsigned long long inference, pools;
    if (!PyArg_ParseTuple(arguments, "KK", &inference, &pools)) {
        return NULL;
    }
    self->spares.in_inference = (bool (*)(void))(uintptr_t)inference;
    self->spares.pools = inference ? (const uint64_t *)(uintptr_t)pools : NULL;
    Py_RETURN_NONE;
}

/* ---- The type ---------------------------------------------------------------------------------------------------- */

/* Table(exchange, tensor_type, parameter_type, is_neg, execute, fail): exchange a capsule; execute an address; is_neg a
 * function of a tensor; fail a function of a status, which raises. */
static PyObject *table_new(PyTypeObject *type, PyObject *arguments, PyObject *named)
{
    PyObject *exchange, *tensor_type, *parameter_type, *is_neg, *fail;
    unsigned long long execute_at;
    (void)named;
    if (!PyArg_ParseTuple(arguments, "OOOOKO", &exchange, &tensor_type, &parameter_type, &is_neg, &execute_at, &fail)) {
        return NULL;
    }
    const dl_exchange *functions = PyCapsule_GetPointer(exchange, "dlpack_exchange_api");
    if (!functions) {
        return NULL;
    }
    if (functions->major != DL_MAJOR || !functions->view || !functions->current_stream) {
        PyErr_SetString(PyExc_ValueError, "its DLPack is not of version 1, or has no views");
        return NULL;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    table *self = (table *)allocate(type, 0);
    if (!self) {
        return NULL;
    }
    self->exchange = functions;
    self->capsule = held(exchange);
    self->tensor_type = held(tensor_type);
    self->parameter_type = held(parameter_type);
    self->is_neg = held(is_neg);
    self->fail = held(fail);
    self->requires_grad = PyUnicode_InternFromString("requires_grad");
    self->execute = (attune_status(*)(const attune_plan *, const attune_call *))(uintptr_t)execute_at;
    return (PyObject *)self;
}

static void table_end(PyObject *object)
{
    table *self = (table *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject *own[] = {self->capsule, self->tensor_type, self->parameter_type,
                       self->is_neg,  self->fail,        self->requires_grad};
    for (size_t i = 0; i < SETS * WAYS; ++i) {
        forget(self->sets[i / WAYS][i % WAYS]);
    }
    at_fast_drop_spares(&self->spares);
    for (size_t i = 0; i < sizeof own / sizeof *own; ++i) {
        Py_XDECREF(own[i]);
    }
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF((PyObject *)type);
}

static PyMethodDef methods[] = {
    {"sdpa", (PyCFunction)(void (*)(void))table_sdpa, METH_FASTCALL,
     "sdpa(q, k, v, is_causal, scale, enable_gqa, layout), sdpa(q, k, v, named): O, or None where Python must see to "
     "it"},
    {"with_lse", (PyCFunction)(void (*)(void))table_with_lse, METH_FASTCALL,
     "with_lse(q, k, v, is_causal, scale, deterministic, form): what attention.with_lse gives, or None"},
    {"learn", table_learn, METH_VARARGS, NULL},
    {"read_by", table_read_by, METH_VARARGS, NULL},
    {"spare_by", table_spare_by, METH_VARARGS, NULL},
    {"is_plain", table_is_plain, METH_O, NULL},
    {NULL, NULL, 0, NULL}};

static PyType_Slot slots[] = {{Py_tp_new, table_new}, {Py_tp_dealloc, table_end}, {Py_tp_methods, methods}, {0, NULL}};

static PyType_Spec spec = {
    .name = "attune._fast.Table", .basicsize = sizeof(table), .flags = Py_TPFLAGS_DEFAULT, .slots = slots};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "attune._fast", .m_size = -1,
                                    .m_doc = "Calls that have been seen, in C."};

PyMODINIT_FUNC PyInit__fast(void);

PyMODINIT_FUNC PyInit__fast(void)
{
    PyObject *made = PyModule_Create(&module), *type = PyType_FromSpec(&spec);
    if (!made || !type || PyModule_AddObject(made, "Table", type) != 0) {
        Py_XDECREF(type);
        Py_XDECREF(made);
        return NULL;
    }
    return made;
}
