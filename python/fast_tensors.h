/* Tensors as attune._fast sees them: read by DLPack's table, and made. */
#ifndef PYTHON_FAST_TENSORS_H
#define PYTHON_FAST_TENSORS_H

/* The limited interface of CPython 3.10, of which nothing is used that 3.9 has not. */
#define Py_LIMITED_API 0x030A0000
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

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

typedef struct {
    int64_t shape[DIMS], strides[DIMS];
    int32_t dims, device_type, device, dtype; /* dtype: code, bits */
} layout;

/* Of a tensor on a CPU or a CUDA device, of at most DIMS dimensions; false for everything else. */
bool at_fast_view(const dl_exchange *exchange, PyObject *object, layout *at, void **data);

/* ---- Making tensors ---------------------------------------------------------------------------------------------- */

typedef struct spare spare;

/* How a tensor is made: by a function with these arguments, which knows the current device alone, or None; where that
 * is another one than this, by a function of q. */
typedef struct {
    PyObject *plain, *arguments, *other;
    int32_t device_type, device;
    int elsewhere; /* for so many calls the other one is taken at once */
    int64_t bytes;
    spare *place; /* where its spare lies, if that is still its own */
} maker;

/* A tensor that was made behind a launch, while the kernel worked, for the next call of its kind, which need not wait
 * for its making. Of the default stream alone, on which no graph can be captured: what is done with its memory there
 * comes after all that was done before. Few, and small. */
struct spare {
    const maker *of;
    PyObject *tensor; /* NULL: it is in use */
    void *data;
    bool inference; /* made in PyTorch's mode of that name, to be used in that alone */
};

enum { SPARES = 8, SPARE_BYTES = 1 << 20 };

/* in_inference, pools: PyTorch's own function that says whether it is in that mode, and the number of the next pool of
 * memory that anybody makes. While one is in use all that is made should be of it; so once there was one, there are no
 * spares, and `pools` is NULL. NULL: unknown, likewise. */
typedef struct {
    bool (*in_inference)(void);
    const uint64_t *pools;
    spare place[SPARES];
    unsigned next;
} spares;

/* `one`: (plain, arguments, other), as makers are made in attune/fast.py; `like`: a tensor that is as what it makes is
 * to be. */
bool at_fast_read_maker(const dl_exchange *exchange, PyObject *one, PyObject *like, maker *it);
/* A tensor, and where it lies. */
PyObject *at_fast_make(const dl_exchange *exchange, maker *by, PyObject *like, void **data);

/* Whether calls on this stream may use spares, and make them; where nobody may any more, all are dropped. */
bool at_fast_may_spare(spares *all, const void *stream);
/* NULL where there is none. */
PyObject *at_fast_take_spare(const spares *all, maker *by, void **data);
void at_fast_make_spare(spares *all, const dl_exchange *exchange, maker *by);
/* The maker's own, before the maker goes. */
void at_fast_drop_spare(const maker *by);
void at_fast_drop_spares(spares *all);

#endif
