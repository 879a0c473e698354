/* attune._fast: calls of attune.sdpa on PyTorch's tensors of a kind that has been seen, without Python on the way. It
 * is built against neither PyTorch nor libattune: tensors are read by DLPack's table of C functions, which their type
 * has, and attune/fast.py brings all other functions by their addresses. What it does not know, or what is not as it
 * was, is left to Python: the answer is None then, and nothing has been done.
 *
 * The limited interface of CPython 3.10, of which nothing is used that 3.9 has not. */
#define Py_LIMITED_API 0x030A0000
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "attune/attune.h"

/* ---- DLPack ------------------------------------------------------------------------------------------------------ */

enum { DL_MAJOR = 1, DL_CPU = 1, DL_CUDA = 2, DIMS = 4 };

typedef struct {
    void *data;
    int32_t device_type, device;
    int32_t dims;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides; /* of `dims` each, in elements */
    uint64_t byte_offset;
} dl_tensor;

/* What the capsule "dlpack_exchange_api" points to, from DLPack 1.2 on. */
typedef struct {
    uint32_t major, minor;
    void *older;
    void *allocate, *from_object, *to_object; /* not needed here */
    int (*view)(void *object, dl_tensor *tensor);
    int (*current_stream)(int32_t device_type, int32_t device, void **stream);
} dl_exchange;

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

typedef struct {
    int64_t shape[DIMS], strides[DIMS];
    int32_t dims, device_type, device, dtype; /* dtype: code, bits */
} layout;

/* All that calls of a kind have in common. No padding: it is compared as bytes. */
typedef struct {
    layout of[INPUTS];
    int64_t scale; /* a double's bits */
    int64_t options;
} form;

typedef struct {
    form key;
    layout out[OUTPUTS];
    int outputs; /* how many there are */
    attune_call call;
    const attune_plan *plan;
    PyObject *hold;   /* what keeps the plan */
    PyObject *makers; /* of each output, of a workspace, as functions of q: where PyTorch's own cannot be had */
    uintptr_t align;  /* pointers are multiples of align + 1 */
    int64_t room;     /* bytes of workspace */
} kind;

typedef int (*empty_function)(int64_t dims, const int64_t *shape, const int64_t *strides, int32_t dtype,
                              int32_t device_type, int32_t device, void **tensor);

typedef struct {
    PyObject_HEAD const dl_exchange *exchange;
    PyObject *capsule, *tensor_type, *parameter_type, *requires_grad, *is_neg, *fail;
    attune_status (*execute)(const attune_plan *, const attune_call *);
    /* PyTorch's own, with C linkage or what is like it: a tensor, its Python object, its end, where its data lies,
     * whether its sign is pending, whether its TensorImpl wants a gradient; NULL for none. */
    empty_function empty;
    PyObject *(*wrap)(void *tensor);
    int (*end)(void *tensor);
    int (*data_of)(void *tensor, void **data);
    bool (*negated)(const void *tensor);
    bool (*wants)(const void *impl);
    size_t place;           /* of the tensor in its Python object, in bytes; 0: unknown */
    kind *sets[SETS][WAYS]; /* the one that was seen last first */
} table;

static void forget(kind *it)
{
    if (it) {
        Py_XDECREF(it->hold);
        Py_XDECREF(it->makers);
        free(it);
    }
}

static size_t set_of(const form *key)
{
    uint64_t hash = 0, word;
    for (size_t at = 0; at < sizeof *key; at += sizeof word) {
        memcpy(&word, (const char *)key + at, sizeof word);
        hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 29;
    }
    return (size_t)(hash >> 8) % SETS;
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

static bool view_of(table *self, PyObject *object, layout *at, void **data)
{
    dl_tensor view;
    if (self->exchange->view(object, &view) != 0) {
        PyErr_Clear();
        return false;
    }
    if (view.dims < 0 || view.dims > DIMS || view.lanes != 1 || view.byte_offset != 0) {
        return false;
    }
    for (int i = 0; i < DIMS; ++i) {
        at->shape[i] = i < view.dims ? view.shape[i] : 0;
        at->strides[i] = i < view.dims ? view.strides[i] : 0;
    }
    at->dims = view.dims;
    at->device_type = view.device_type;
    at->device = view.device;
    at->dtype = view.code << 8 | view.bits;
    *data = view.data;
    return view.device_type == DL_CPU || view.device_type == DL_CUDA;
}

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
    return (type == self->tensor_type || type == self->parameter_type) && view_of(self, object, at, data) && *data &&
           at->dims == DIMS && is_plain(self, object, may_want);
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

/* attune.sdpa(q, k, v, is_causal, scale, enable_gqa, layout), or what with_lse is asked: (q, k, v, is_causal, scale,
 * deterministic, form). */
static bool read_form(table *self, PyObject *const *given, bool with_lse, form *key, void **data)
{
    int64_t options = with_lse ? WITH_LSE : 0;
    if (!read_flag(given[3], IS_CAUSAL, &options) ||
        !read_flag(given[5], with_lse ? DETERMINISTIC : ENABLE_GQA, &options)) {
        return false;
    }
    if (with_lse ? !read_number(given[6], FORM, &options) : !PyUnicode_Check(given[6])) {
        return false;
    }
    if (!with_lse && PyUnicode_CompareWithASCIIString(given[6], "bhsd") != 0) {
        options |= BSHD;
        if (PyUnicode_CompareWithASCIIString(given[6], "bshd") != 0) {
            return false;
        }
    }
    key->scale = 0;
    if (given[4] != Py_None) {
        if (!PyFloat_Check(given[4])) {
            return false;
        }
        double scale = PyFloat_AsDouble(given[4]);
        memcpy(&key->scale, &scale, sizeof scale);
        options |= HAS_SCALE;
    }
    key->options = options;
    for (int i = 0; i < INPUTS; ++i) {
        if (!read_tensor(self, given[i], with_lse, &key->of[i], &data[i])) {
            return false;
        }
    }
    return true;
}

/* ---- Making tensors ---------------------------------------------------------------------------------------------- */

/* PyTorch's numbers of dtypes, by DLPack's. */
static int32_t torch_dtype(int32_t dtype)
{
    enum { SIGNED, UNSIGNED, FLOAT, BFLOAT = 4 };
    static const int32_t known[][2] = {{FLOAT << 8 | 32, 6},   {FLOAT << 8 | 16, 5},  {BFLOAT << 8 | 16, 15},
                                       {UNSIGNED << 8 | 8, 0}, {SIGNED << 8 | 64, 4}, {UNSIGNED << 8 | 64, 29}};
    for (size_t i = 0; i < sizeof known / sizeof *known; ++i) {
        if (known[i][0] == dtype) {
            return known[i][1];
        }
    }
    return -1;
}

/* A tensor of this layout by PyTorch's functions, and where it lies; NULL, without an error, where they do not do it.
 */
static PyObject *make_by_torch(table *self, const layout *at, void **data)
{
    void *tensor = NULL;
    int32_t dtype = self->empty ? torch_dtype(at->dtype) : -1;
    if (dtype < 0 ||
        self->empty(at->dims, at->shape, at->strides, dtype, at->device_type == DL_CUDA, at->device, &tensor) != 0) {
        return NULL;
    }
    PyObject *made = self->data_of(tensor, data) == 0 ? self->wrap(tensor) : NULL;
    self->end(tensor);
    return made;
}

/* The same, by the maker where PyTorch's functions cannot be had. */
static PyObject *make(table *self, const layout *at, PyObject *maker, PyObject *like, void **data)
{
    layout got;
    PyObject *made = make_by_torch(self, at, data);
    if (made || PyErr_Occurred()) {
        return made;
    }
    made = PyObject_CallFunctionObjArgs(maker, like, NULL); /* which says, too, what is wrong, such as no memory */
    if (made && !view_of(self, made, &got, data)) {
        Py_DECREF(made);
        PyErr_SetString(PyExc_RuntimeError, "attune: a tensor that was made cannot be read");
        return NULL;
    }
    return made;
}

/* The memory that the call works in, its owner in *owner. */
static bool make_room(table *self, kind *now, PyObject *like, PyObject **owner)
{
    enum { ALIGN = 256, BYTE = 1 << 8 | 8 };
    layout bytes = {.shape = {now->room + ALIGN - 1}, .strides = {1}, .dims = 1, .dtype = BYTE};
    void *data;
    if (now->room == 0) {
        return true;
    }
    bytes.device_type = now->key.of[Q].device_type;
    bytes.device = now->key.of[Q].device;
    *owner = make(self, &bytes, PyTuple_GetItem(now->makers, now->outputs), like, &data);
    if (!*owner) {
        return false;
    }
    now->call.workspace = (void *)(((uintptr_t)data + ALIGN - 1) & ~(uintptr_t)(ALIGN - 1));
    now->call.workspace_bytes = (size_t)now->room;
    return true;
}

/* ---- Calls ------------------------------------------------------------------------------------------------------- */

static bool execute(table *self, const kind *now)
{
    attune_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = self->execute(now->plan, &now->call);
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

/* `now` is a copy: while Python runs, what was found may be let go. */
static PyObject *run(table *self, kind *now, PyObject *q, void *const *data)
{
    static const int inputs[INPUTS] = {ATTUNE_Q, ATTUNE_K, ATTUNE_V}, outputs[] = {ATTUNE_O, ATTUNE_LSE};
    PyObject *made[OUTPUTS] = {NULL}, *owner = NULL, *answer = NULL;
    for (int i = O; i == O || i < now->outputs; ++i) { /* an O there always is */
        void *at = NULL;
        made[i] = make(self, &now->out[i], PyTuple_GetItem(now->makers, i), q, &at);
        if (!made[i]) {
            goto done;
        }
        if (i <= LSE) {
            now->call.tensor[outputs[i]].data = at;
        }
    }
    if (!make_room(self, now, q, &owner)) {
        goto done;
    }
    for (int i = 0; i < INPUTS; ++i) {
        now->call.tensor[inputs[i]].data = data[i];
    }
    if (now->key.of[Q].device_type == DL_CUDA &&
        self->exchange->current_stream(DL_CUDA, now->key.of[Q].device, &now->call.stream) != 0) {
        goto done;
    }
    if (execute(self, now)) {
        answer = answer_of(now, made);
    }
done:
    for (int i = 0; i < now->outputs; ++i) {
        Py_XDECREF(made[i]);
    }
    Py_XDECREF(owner);
    return answer;
}

static PyObject *serve(table *self, PyObject *const *given, Py_ssize_t count, bool with_lse)
{
    form key;
    void *data[INPUTS];
    kind *found;
    if (count != GIVEN) {
        PyErr_SetString(PyExc_TypeError, "seven arguments are needed");
        return NULL;
    }
    if (!read_form(self, given, with_lse, &key, data) || !(found = find(self, &key)) ||
        (((uintptr_t)data[Q] | (uintptr_t)data[K] | (uintptr_t)data[V]) & found->align)) {
        Py_RETURN_NONE;
    }
    kind now = *found;
    Py_INCREF(now.hold);
    Py_INCREF(now.makers);
    PyObject *answer = run(self, &now, given[Q], data);
    Py_DECREF(now.makers);
    Py_DECREF(now.hold);
    return answer;
}

static PyObject *table_sdpa(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    return serve((table *)self, given, count, false);
}

static PyObject *table_with_lse(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    return serve((table *)self, given, count, true);
}

/* The layouts of what a call gave. */
static bool read_outputs(table *self, PyObject *made, kind *it)
{
    static const int count[FORMS] = {[PAIR] = 2, [FLASH] = OUTPUTS, [CUDNN] = OUTPUTS - 1, [ALONE] = 1};
    int wanted = it->key.options & WITH_LSE ? count[it->key.options / FORM] : 1;
    void *unused;
    it->outputs = (int)PyTuple_Size(made);
    for (int i = 0; i < it->outputs && it->outputs == wanted; ++i) {
        if (!view_of(self, PyTuple_GetItem(made, i), &it->out[i], &unused)) {
            return false;
        }
    }
    return it->outputs == wanted;
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
    if (!read_form(self, of, with_lse, &it->key, data) || !read_outputs(self, made, it)) {
        free(it);
        Py_RETURN_FALSE;
    }
    memcpy(&it->call, bytes, sizeof it->call);
    it->plan = (const attune_plan *)(uintptr_t)plan;
    it->align = (uintptr_t)align - 1;
    it->room = room;
    it->makers = held(makers);
    it->hold = held(hold);
    keep(self, it);
    Py_RETURN_TRUE;
}

/* make_by(empty, wrap, end, data): addresses of PyTorch's functions. */
static PyObject *table_make_by(PyObject *object, PyObject *arguments)
{
    table *self = (table *)object;
    unsigned long long empty, wrap, end, data;
    if (!PyArg_ParseTuple(arguments, "KKKK", &empty, &wrap, &end, &data)) {
        return NULL;
    }
    self->empty = (empty_function)(uintptr_t)empty;
    self->wrap = (PyObject * (*)(void *))(uintptr_t)wrap;
    self->end = (int (*)(void *))(uintptr_t)end;
    self->data_of = (int (*)(void *, void **))(uintptr_t)data;
    self->place = 0;
    Py_RETURN_NONE;
}

/* Where in a tensor's Python object, of `size` bytes, its TensorImpl is said; 0 where that is not in one place. */
static size_t place_in(table *self, size_t size)
{
    layout one = {.shape = {1}, .strides = {1}, .dims = 1, .device_type = DL_CPU, .dtype = 2 << 8 | 32};
    void *tensor = NULL, *impl;
    size_t found = 0;
    if (!self->empty || self->empty(one.dims, one.shape, one.strides, torch_dtype(one.dtype), 0, 0, &tensor) != 0) {
        return 0;
    }
    memcpy(&impl, tensor, sizeof impl);
    PyObject *object = self->wrap(tensor);
    for (size_t at = sizeof(PyObject); object && at + sizeof impl <= size; at += sizeof impl) {
        if (memcmp((const char *)object + at, &impl, sizeof impl) == 0) {
            found = found == 0 ? at : size;
        }
    }
    Py_XDECREF(object);
    self->end(tensor);
    PyErr_Clear();
    return found < size ? found : 0;
}

/* read_by(negated, wants, size): addresses of PyTorch's functions that say of a tensor whether its sign is pending, and
 * of its TensorImpl whether it wants a gradient; size: of a tensor's Python object. False where a TensorImpl is not
 * found in that, and Python is asked. Needs make_by. */
static PyObject *table_read_by(PyObject *object, PyObject *arguments)
{
    table *self = (table *)object;
    unsigned long long negated, wants, size;
    if (!PyArg_ParseTuple(arguments, "KKK", &negated, &wants, &size)) {
        return NULL;
    }
    self->negated = (bool (*)(const void *))(uintptr_t)negated;
    self->wants = (bool (*)(const void *))(uintptr_t)wants;
    self->place = negated && wants ? place_in(self, (size_t)size) : 0;
    return PyBool_FromLong(self->place != 0);
}

/* is_plain(tensor): what has no sign pending and wants no gradient; for looking at what read_by found. */
static PyObject *table_is_plain(PyObject *object, PyObject *tensor)
{
    return PyBool_FromLong(is_plain((table *)object, tensor, false));
}

/* empty_like(tensor): a tensor of its layout, made by what make_by named; for looking at what that does. */
static PyObject *table_empty_like(PyObject *object, PyObject *like)
{
    table *self = (table *)object;
    layout at;
    void *data;
    if (!self->empty || !view_of(self, like, &at, &data)) {
        PyErr_SetString(PyExc_ValueError, "a tensor, and functions by make_by, are needed");
        return NULL;
    }
    PyObject *made = make_by_torch(self, &at, &data);
    if (!made && !PyErr_Occurred()) {
        PyErr_SetString(PyExc_RuntimeError, "PyTorch's functions made nothing");
    }
    return made;
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
    for (size_t i = 0; i < sizeof own / sizeof *own; ++i) {
        Py_XDECREF(own[i]);
    }
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF((PyObject *)type);
}

static PyMethodDef methods[] = {
    {"sdpa", (PyCFunction)(void (*)(void))table_sdpa, METH_FASTCALL,
     "sdpa(q, k, v, is_causal, scale, enable_gqa, layout): O, or None where Python must see to it"},
    {"with_lse", (PyCFunction)(void (*)(void))table_with_lse, METH_FASTCALL,
     "with_lse(q, k, v, is_causal, scale, deterministic, form): what attention.with_lse gives, or None"},
    {"learn", table_learn, METH_VARARGS, NULL},
    {"make_by", table_make_by, METH_VARARGS, NULL},
    {"read_by", table_read_by, METH_VARARGS, NULL},
    {"is_plain", table_is_plain, METH_O, NULL},
    {"empty_like", table_empty_like, METH_O, NULL},
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
