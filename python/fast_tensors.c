#include "fast_tensors.h"

bool at_fast_view(const dl_exchange *exchange, PyObject *object, layout *at, void **data)
{
    dl_tensor view;
    if (exchange->view(object, &view) != 0) {
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

/* ---- Making tensors ---------------------------------------------------------------------------------------------- */

bool at_fast_read_maker(const dl_exchange *exchange, PyObject *one, PyObject *like, maker *it)
{
    layout at;
    void *unused;
    if (!PyArg_ParseTuple(one, "OO!O", &it->plain, &PyTuple_Type, &it->arguments, &it->other) ||
        !at_fast_view(exchange, like, &at, &unused)) {
        return false;
    }
    it->device_type = at.device_type;
    it->device = at.device;
    it->bytes = (at.dtype & 0xff) / 8;
    for (int i = 0; i < at.dims; ++i) {
        it->bytes *= at.shape[i];
    }
    return true;
}

/* By the plain function; NULL without an error where that made it on another device. */
static PyObject *make_plain(const dl_exchange *exchange, const maker *by, void **data)
{
    layout got;
    PyObject *made = PyObject_Call(by->plain, by->arguments, NULL);
    if (made &&
        !(at_fast_view(exchange, made, &got, data) && got.device_type == by->device_type && got.device == by->device)) {
        Py_CLEAR(made);
    }
    return made;
}

PyObject *at_fast_make(const dl_exchange *exchange, maker *by, PyObject *like, void **data)
{
    enum { LONG = 64 };
    layout got;
    PyObject *made;
    if (by->plain != Py_None && (by->elsewhere == 0 || --by->elsewhere == 0)) {
        made = make_plain(exchange, by, data);
        if (made || PyErr_Occurred()) {
            return made; /* the error says why, such as no memory */
        }
        by->elsewhere = LONG;
    }
    made = PyObject_CallFunctionObjArgs(by->other, like, NULL);
    if (made && !at_fast_view(exchange, made, &got, data)) {
        Py_DECREF(made);
        PyErr_SetString(PyExc_RuntimeError, "attune: a tensor that was made cannot be read");
        return NULL;
    }
    return made;
}

/* ---- Spares ------------------------------------------------------------------------------------------------------ */

bool at_fast_may_spare(spares *all, const void *stream)
{
    if (all->pools && *all->pools != 1) {
        all->pools = NULL;
        at_fast_drop_spares(all);
    }
    return !stream && all->pools;
}

PyObject *at_fast_take_spare(const spares *all, maker *by, void **data)
{
    spare *it = by->place;
    PyObject *made = NULL;
    if (it && it->of == by && it->tensor && it->inference == all->in_inference()) {
        made = it->tensor;
        *data = it->data;
        it->tensor = NULL;
    }
    return made;
}

/* The maker's own place, or that of the oldest. */
static spare *place_of(spares *all, maker *by)
{
    if (!by->place || by->place->of != by) {
        by->place = &all->place[all->next++ % SPARES];
        by->place->of = by;
    }
    return by->place;
}

/* Whatever goes wrong, there is none then. */
void at_fast_make_spare(spares *all, const dl_exchange *exchange, maker *by)
{
    void *data = NULL;
    PyObject *made, *old;
    if (by->plain == Py_None || by->elsewhere != 0 || by->bytes > SPARE_BYTES) {
        return;
    }
    bool inference = all->in_inference();
    made = make_plain(exchange, by, &data);
    PyErr_Clear();
    if (!at_fast_may_spare(all, NULL)) { /* since the launch, or the making */
        Py_XDECREF(made);
        return;
    }
    spare *it = place_of(all, by); /* now, for making may run other calls */
    old = it->tensor;
    *it = (spare){.of = by, .tensor = made, .data = data, .inference = inference};
    Py_XDECREF(old);
}

void at_fast_drop_spare(const maker *by)
{
    spare *it = by->place;
    if (it && it->of == by) {
        PyObject *old = it->tensor;
        *it = (spare){.of = NULL};
        Py_XDECREF(old);
    }
}

void at_fast_drop_spares(spares *all)
{
    for (int i = 0; i < SPARES; ++i) {
        Py_CLEAR(all->place[i].tensor);
    }
}
