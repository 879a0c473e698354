#include "cuda/fake_driver.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define EXPORT __attribute__((visibility("default")))

/* The handles are addresses of these. */
static char contexts[FAKE_CONTEXTS];
static char streams[FAKE_CONTEXTS];
static char module_handle;
static char function_handle;

static _Thread_local at_cu_context stack[16];
static _Thread_local int depth;

static at_cu_context context_at(int index)
{
    return (at_cu_context)(void *)&contexts[index];
}

static int index_of(at_cu_context context)
{
    return (int)((char *)(void *)context - contexts);
}

static void set_current(at_cu_context context)
{
    depth = 0;
    if (context != NULL) {
        stack[depth++] = context;
    }
}

static at_cu_context current(void)
{
    return depth > 0 ? stack[depth - 1] : NULL;
}

EXPORT extern fake_record fake;
fake_record fake = {
    .version = 13000,
    .memory = 1 << 30,
    .context = {(at_cu_context)(void *)&contexts[0], (at_cu_context)(void *)&contexts[1],
                (at_cu_context)(void *)&contexts[2], (at_cu_context)(void *)&contexts[3]},
    .stream = {(at_cu_stream)(void *)&streams[0], (at_cu_stream)(void *)&streams[1], (at_cu_stream)(void *)&streams[2],
               (at_cu_stream)(void *)&streams[3]},
    .set_current = set_current,
    .current = current,
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- Memory: the host's, in a list ----------------------------------------------------------------------------------
 */

enum { BLOCKS = 256 };

static struct {
    char *data;
    size_t bytes;
    int device;
} block[BLOCKS];

static int block_of(at_cu_pointer pointer)
{
    const char *at = (const char *)(uintptr_t)pointer;
    for (int i = 0; i < BLOCKS; ++i) {
        if (block[i].data != NULL && at >= block[i].data && at < block[i].data + block[i].bytes) {
            return i;
        }
    }
    return -1;
}

static at_cu_result mem_alloc(at_cu_pointer *pointer, size_t bytes)
{
    if (current() == NULL) {
        return AT_CU_INVALID_CONTEXT;
    }
    if (bytes > fake.memory) {
        return AT_CU_OUT_OF_MEMORY;
    }
    for (int i = 0; i < BLOCKS; ++i) {
        if (block[i].data == NULL) {
            block[i].data = aligned_alloc(256, (bytes + 255) / 256 * 256);
            block[i].bytes = bytes;
            block[i].device = index_of(current()) % FAKE_DEVICES;
            *pointer = (uintptr_t)block[i].data;
            ++fake.allocations;
            return AT_CU_SUCCESS;
        }
    }
    return AT_CU_OUT_OF_MEMORY;
}

static at_cu_result mem_free(at_cu_pointer pointer)
{
    int at = block_of(pointer);
    if (at < 0) {
        return AT_CU_INVALID_VALUE;
    }
    free(block[at].data);
    block[at].data = NULL;
    --fake.allocations;
    return AT_CU_SUCCESS;
}

static at_cu_result mem_info(size_t *left, size_t *total)
{
    *left = fake.memory;
    *total = 2 * fake.memory;
    return AT_CU_SUCCESS;
}

static at_cu_result copy_to(at_cu_pointer to, const void *from, size_t bytes, at_cu_stream stream)
{
    (void)stream;
    memcpy((void *)(uintptr_t)to, from, bytes);
    return block_of(to) < 0 ? AT_CU_INVALID_VALUE : AT_CU_SUCCESS;
}

static at_cu_result copy_from(void *to, at_cu_pointer from, size_t bytes, at_cu_stream stream)
{
    (void)stream;
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return block_of(from) < 0 ? AT_CU_INVALID_VALUE : AT_CU_SUCCESS;
}

/* Copies on the device that were enqueued, and are not done yet. */
static struct {
    at_cu_pointer to, from;
    size_t bytes;
} enqueued[16];
static int enqueued_count;

static void copy_enqueued(void)
{
    for (int i = 0; i < enqueued_count; ++i) {
        memcpy((void *)(uintptr_t)enqueued[i].to, (const void *)(uintptr_t)enqueued[i].from, enqueued[i].bytes);
    }
    enqueued_count = 0;
}

static at_cu_result copy_within(at_cu_pointer to, at_cu_pointer from, size_t bytes, at_cu_stream stream)
{
    (void)stream;
    if (enqueued_count == (int)(sizeof enqueued / sizeof enqueued[0])) {
        return AT_CU_INVALID_VALUE;
    }
    enqueued[enqueued_count].to = to;
    enqueued[enqueued_count].from = from;
    enqueued[enqueued_count++].bytes = bytes;
    if (!fake.late) {
        copy_enqueued();
    }
    return AT_CU_SUCCESS;
}

/* ---- Memory that is mapped to addresses: there and writable only where it was made so ------------------------------
 */

enum { GRAIN = 1 << 16 };

static at_cu_result mapping_grain(size_t *grain, const at_cu_mem_kind *kind, unsigned int which)
{
    (void)which;
    *grain = GRAIN;
    return fake.mapping != AT_CU_SUCCESS                                                        ? fake.mapping
           : kind->type == AT_CU_MEM_PINNED && kind->location.type == AT_CU_MEM_LOCATION_DEVICE ? AT_CU_SUCCESS
                                                                                                : AT_CU_INVALID_VALUE;
}

static at_cu_result reserve(at_cu_pointer *at, size_t bytes, size_t align, at_cu_pointer wish, unsigned long long flags)
{
    void *pages = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)align, (void)wish, (void)flags;
    *at = (uintptr_t)pages;
    ++fake.mappings;
    return pages == MAP_FAILED ? AT_CU_OUT_OF_MEMORY : AT_CU_SUCCESS;
}

static at_cu_result give_addresses_back(at_cu_pointer at, size_t bytes)
{
    --fake.mappings;
    return munmap((void *)(uintptr_t)at, bytes) == 0 ? AT_CU_SUCCESS : AT_CU_INVALID_VALUE;
}

static at_cu_result mem_create(unsigned long long *memory, size_t bytes, const at_cu_mem_kind *kind,
                               unsigned long long flags)
{
    (void)kind, (void)flags;
    *memory = 77;
    fake.mappings += bytes <= fake.memory;
    return bytes % GRAIN != 0 ? AT_CU_INVALID_VALUE : bytes > fake.memory ? AT_CU_OUT_OF_MEMORY : AT_CU_SUCCESS;
}

static at_cu_result mem_release(unsigned long long memory)
{
    --fake.mappings;
    return memory == 77 ? AT_CU_SUCCESS : AT_CU_INVALID_VALUE;
}

static at_cu_result mem_map(at_cu_pointer at, size_t bytes, size_t offset, unsigned long long memory,
                            unsigned long long flags)
{
    ++fake.mappings;
    return (at | bytes | offset | flags) % 4096 == 0 && memory == 77 ? AT_CU_SUCCESS : AT_CU_INVALID_VALUE;
}

static at_cu_result mem_unmap(at_cu_pointer at, size_t bytes)
{
    --fake.mappings;
    return mprotect((void *)(uintptr_t)at, bytes, PROT_NONE) == 0 ? AT_CU_SUCCESS : AT_CU_INVALID_VALUE;
}

static at_cu_result mem_access(at_cu_pointer at, size_t bytes, const at_cu_mem_access *access, size_t count)
{
    const int how = access->flags == AT_CU_MEM_READ ? PROT_READ : PROT_READ | PROT_WRITE;
    if (how == PROT_READ && fake.locking != AT_CU_SUCCESS) {
        return fake.locking;
    }
    return count == 1 && mprotect((void *)(uintptr_t)at, bytes, how) == 0 ? AT_CU_SUCCESS : AT_CU_INVALID_VALUE;
}

static at_cu_result pointer_attribute(void *value, unsigned int attribute, at_cu_pointer pointer)
{
    int at = block_of(pointer);
    (void)pthread_mutex_lock(&lock);
    ++fake.pointer_questions;
    (void)pthread_mutex_unlock(&lock);
    if (at < 0) {
        return AT_CU_INVALID_VALUE;
    }
    int answer = attribute == AT_CU_POINTER_MEMORY_TYPE ? AT_CU_MEMORY_DEVICE
                 : attribute == AT_CU_POINTER_DEVICE    ? block[at].device
                                                        : 0;
    memcpy(value, &answer, sizeof answer);
    return AT_CU_SUCCESS;
}

static at_cu_result fill(at_cu_pointer at, unsigned int pattern, size_t words, at_cu_stream stream)
{
    (void)stream;
    ++fake.fills;
    fake.fill_at = at;
    fake.fill_words = words;
    fake.fill_pattern = pattern;
    return AT_CU_SUCCESS;
}

/* ---- Devices and contexts -------------------------------------------------------------------------------------------
 */

static at_cu_result error_name(at_cu_result error, const char **name)
{
    *name = error == AT_CU_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_FAKE";
    return AT_CU_SUCCESS;
}

static at_cu_result error_string(at_cu_result error, const char **text)
{
    (void)error;
    *text = "a text";
    return AT_CU_SUCCESS;
}

static at_cu_result device_get(at_cu_device *device, int ordinal)
{
    *device = ordinal;
    return AT_CU_SUCCESS;
}

static at_cu_result device_count(int *count)
{
    *count = FAKE_DEVICES;
    return AT_CU_SUCCESS;
}

static at_cu_result device_name(char *name, int bytes, at_cu_device device)
{
    strncpy(name, device == 0 ? "NVIDIA Fake 9000" : "NVIDIA Fake 8900", (size_t)bytes);
    return AT_CU_SUCCESS;
}

static at_cu_result device_attribute(int *value, unsigned int attribute, at_cu_device device)
{
    static const struct {
        unsigned int attribute;
        int value[FAKE_DEVICES];
    } known[] = {
        {AT_CU_ATTRIBUTE_MAJOR, {9, 8}},
        {AT_CU_ATTRIBUTE_MINOR, {0, 9}},
        {AT_CU_ATTRIBUTE_SM_COUNT, {132, 58}},
        {AT_CU_ATTRIBUTE_SMEM_BLOCK, {49152, 49152}},
        {AT_CU_ATTRIBUTE_SMEM_OPTIN, {232448, 101376}},
        {AT_CU_ATTRIBUTE_SMEM_SM, {233472, 102400}},
        {AT_CU_ATTRIBUTE_REGS_SM, {65536, 65536}},
        {AT_CU_ATTRIBUTE_THREADS_SM, {2048, 1536}},
        {AT_CU_ATTRIBUTE_L2_BYTES, {60 << 20, 48 << 20}},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; ++i) {
        if (known[i].attribute == attribute) {
            *value = known[i].value[device];
            return AT_CU_SUCCESS;
        }
    }
    return AT_CU_INVALID_VALUE;
}

static at_cu_result context_current(at_cu_context *context)
{
    *context = current();
    return AT_CU_SUCCESS;
}

static at_cu_result context_device(at_cu_device *device)
{
    *device = current() == NULL ? -1 : index_of(current()) % FAKE_DEVICES;
    return current() == NULL ? AT_CU_INVALID_CONTEXT : AT_CU_SUCCESS;
}

static at_cu_result context_push(at_cu_context context)
{
    stack[depth++] = context;
    return AT_CU_SUCCESS;
}

static at_cu_result context_pop(at_cu_context *context)
{
    *context = stack[--depth];
    return AT_CU_SUCCESS;
}

static at_cu_result primary_retain(at_cu_context *context, at_cu_device device)
{
    ++fake.retained[device];
    *context = context_at(device);
    return AT_CU_SUCCESS;
}

static at_cu_result primary_release(at_cu_device device)
{
    --fake.retained[device];
    return AT_CU_SUCCESS;
}

/* ---- Code -----------------------------------------------------------------------------------------------------------
 */

static at_cu_result module_load(at_cu_module *module, const void *image)
{
    if (fake.load != AT_CU_SUCCESS) {
        return fake.load;
    }
    *module = (at_cu_module)(void *)&module_handle;
    ++fake.modules;
    return memcmp(image, "\177ELF", 4) == 0 ? AT_CU_SUCCESS : AT_CU_INVALID_IMAGE;
}

static at_cu_result module_unload(at_cu_module module)
{
    (void)module;
    --fake.modules;
    return AT_CU_SUCCESS;
}

static at_cu_result module_function(at_cu_function *function, at_cu_module module, const char *name)
{
    (void)module;
    strncpy(fake.entry, name, sizeof fake.entry - 1);
    *function = (at_cu_function)(void *)&function_handle;
    return AT_CU_SUCCESS;
}

static at_cu_result function_set(at_cu_function function, unsigned int attribute, int value)
{
    (void)function;
    if (attribute == AT_CU_FUNC_SMEM_DYNAMIC_MAX) {
        fake.smem_limit = (unsigned int)value;
    } else {
        fake.non_portable = value;
    }
    return AT_CU_SUCCESS;
}

static at_cu_result function_get(int *value, unsigned int attribute, at_cu_function function)
{
    (void)attribute, (void)function;
    *value = 1024;
    return AT_CU_SUCCESS;
}

static at_cu_result launch(const at_cu_launch_config *config, at_cu_function function, void **params, void **extra)
{
    (void)function, (void)extra;
    if (fake.launch != AT_CU_SUCCESS) {
        return fake.launch;
    }
    (void)pthread_mutex_lock(&lock);
    const int at = fake.launches++ % FAKE_LAUNCHES;
    fake.config = *config;
    if (config->attribute_count > 0) {
        memcpy(fake.attribute, config->attributes, config->attribute_count * sizeof fake.attribute[0]);
    }
    const size_t forward = offsetof(attune_args, tensor) + ATTUNE_ROLES_FORWARD * sizeof(attune_tensor);
    memcpy(&fake.args, params[0], forward);
    memcpy(fake.param, params[0], fake.param_bytes > 0 ? fake.param_bytes : forward);
    fake.args_of[at] = fake.args;
    fake.grid_of[at] = config->grid[0];
    fake.strayed += fake.args.map[0].opaque[0] != (uintptr_t)fake.args.tensor[ATTUNE_Q].data;
    fake.launched_in = current();
    (void)pthread_mutex_unlock(&lock);
    return AT_CU_SUCCESS;
}

static void count(int *of)
{
    (void)pthread_mutex_lock(&lock);
    ++*of;
    (void)pthread_mutex_unlock(&lock);
}

static at_cu_result encode(attune_tensor_map *map, unsigned int type, uint32_t rank, void *data, const uint64_t *size,
                           const uint64_t *stride, const uint32_t *box, const uint32_t *steps, unsigned int interleave,
                           unsigned int swizzle, unsigned int promotion, unsigned int out_of_bounds)
{
    (void)steps, (void)interleave, (void)out_of_bounds;
    if ((uintptr_t)map % 64 != 0) {
        return AT_CU_INVALID_VALUE;
    }
    count(&fake.map_encodes);
    map->opaque[0] = (uintptr_t)data;
    map->opaque[1] = size[0] | size[1] << 32;
    map->opaque[2] = stride[0];
    map->opaque[3] = box[0] | (uint64_t)box[1] << 32;
    map->opaque[4] = type | (uint64_t)rank << 8 | (uint64_t)swizzle << 16 | (uint64_t)promotion << 24;
    return stride[0] % 16 == 0 ? AT_CU_SUCCESS : AT_CU_INVALID_VALUE;
}

static at_cu_result replace(attune_tensor_map *map, void *data)
{
    count(&fake.map_moves);
    map->opaque[0] = (uintptr_t)data;
    return (uintptr_t)map % 64 == 0 && (uintptr_t)data % 16 == 0 ? AT_CU_SUCCESS : AT_CU_INVALID_VALUE;
}

/* ---- Streams --------------------------------------------------------------------------------------------------------
 */

static at_cu_result stream_context(at_cu_stream stream, at_cu_context *context)
{
    ++fake.stream_questions;
    *context = context_at((int)((char *)(void *)stream - streams));
    return AT_CU_SUCCESS;
}

static at_cu_result stream_synchronise(at_cu_stream stream)
{
    (void)stream;
    copy_enqueued();
    return AT_CU_SUCCESS;
}

static at_cu_result stream_create(at_cu_stream *stream, unsigned int flags)
{
    (void)flags;
    ++fake.handles;
    *stream = (at_cu_stream)(void *)&streams[index_of(current())];
    return AT_CU_SUCCESS;
}

static at_cu_result stream_begin_capture(at_cu_stream stream, unsigned int mode)
{
    (void)stream, (void)mode;
    return AT_CU_SUCCESS;
}

/* Events and nodes: handles without anything behind them. Graphs know the time at which they were captured. */
static at_cu_result make_handle(void **handle)
{
    ++fake.handles;
    *handle = &module_handle;
    return AT_CU_SUCCESS;
}

static at_cu_result drop_handle(void *handle)
{
    --fake.handles;
    return handle == NULL ? AT_CU_INVALID_VALUE : AT_CU_SUCCESS;
}

static at_cu_result stream_end_capture(at_cu_stream stream, at_cu_graph *graph)
{
    static float taken_ms[64];
    static int next;
    (void)stream;
    next = (next + 1) % (int)(sizeof taken_ms / sizeof taken_ms[0]);
    taken_ms[next] = fake.elapsed_ms;
    ++fake.handles;
    *graph = (at_cu_graph)(void *)&taken_ms[next];
    return AT_CU_SUCCESS;
}

static at_cu_result graph_nodes(at_cu_graph graph, at_cu_graph_node *nodes, size_t *count)
{
    (void)graph, (void)nodes;
    *count = 1;
    return AT_CU_SUCCESS;
}

static at_cu_result graph_instantiate(at_cu_graph_exec *exec, at_cu_graph graph, unsigned long long flags)
{
    (void)flags;
    ++fake.handles;
    *exec = (at_cu_graph_exec)(void *)graph;
    return AT_CU_SUCCESS;
}

static at_cu_result graph_run(at_cu_graph_exec exec, at_cu_stream stream)
{
    (void)stream;
    fake.elapsed_ms = *(const float *)(const void *)exec;
    return AT_CU_SUCCESS;
}

static at_cu_result event_create(at_cu_event *event, unsigned int flags)
{
    (void)flags;
    return make_handle((void **)event);
}

static at_cu_result event_record(at_cu_event event, at_cu_stream stream)
{
    (void)event, (void)stream;
    return AT_CU_SUCCESS;
}

static at_cu_result event_synchronise(at_cu_event event)
{
    (void)event;
    return AT_CU_SUCCESS;
}

static at_cu_result event_elapsed(float *ms, at_cu_event begin, at_cu_event end)
{
    (void)begin, (void)end;
    *ms = fake.elapsed_ms;
    return AT_CU_SUCCESS;
}

static at_cu_result unused(void)
{
    return AT_CU_NOT_FOUND;
}

/* ---- Finding all that -----------------------------------------------------------------------------------------------
 */

/* ---- Linking: PTX becomes the code that the test has put by --------------------------------------------------------
 */

static at_cu_result link_create(unsigned int count, unsigned int *option, void **value, at_cu_link *link)
{
    static char handle;
    (void)count, (void)option, (void)value;
    *link = (at_cu_link)(void *)&handle;
    ++fake.links;
    return current() == NULL ? AT_CU_INVALID_CONTEXT : AT_CU_SUCCESS;
}

static at_cu_result link_add(at_cu_link link, unsigned int kind, void *data, size_t bytes, const char *name,
                             unsigned int count, unsigned int *option, void **value)
{
    (void)link, (void)name, (void)count, (void)option, (void)value;
    bool text = kind == AT_CU_JIT_PTX && ((const char *)data)[bytes - 1] == '\0';
    return text && strstr(data, ".target") != NULL ? AT_CU_SUCCESS : AT_CU_INVALID_IMAGE;
}

static at_cu_result link_complete(at_cu_link link, void **code, size_t *bytes)
{
    (void)link;
    *code = (void *)(uintptr_t)fake.linked;
    *bytes = fake.linked_bytes;
    return fake.linked == NULL ? AT_CU_INVALID_IMAGE : AT_CU_SUCCESS;
}

static at_cu_result link_destroy(at_cu_link link)
{
    (void)link;
    --fake.links;
    return AT_CU_SUCCESS;
}

typedef void (*any)(void); /* compilers take this one for every function */

static const struct {
    const char *name;
    any function;
} items[] = {
    {"cuGetErrorName", (any)error_name},
    {"cuGetErrorString", (any)error_string},
    {"cuDeviceGet", (any)device_get},
    {"cuDeviceGetCount", (any)device_count},
    {"cuDeviceGetName", (any)device_name},
    {"cuDeviceGetAttribute", (any)device_attribute},
    {"cuCtxGetCurrent", (any)context_current},
    {"cuCtxGetDevice", (any)context_device},
    {"cuCtxPushCurrent", (any)context_push},
    {"cuCtxPopCurrent", (any)context_pop},
    {"cuDevicePrimaryCtxRetain", (any)primary_retain},
    {"cuDevicePrimaryCtxRelease", (any)primary_release},
    {"cuLinkCreate", (any)link_create},
    {"cuLinkAddData", (any)link_add},
    {"cuLinkComplete", (any)link_complete},
    {"cuLinkDestroy", (any)link_destroy},
    {"cuModuleLoadData", (any)module_load},
    {"cuModuleUnload", (any)module_unload},
    {"cuModuleGetFunction", (any)module_function},
    {"cuFuncSetAttribute", (any)function_set},
    {"cuFuncGetAttribute", (any)function_get},
    {"cuLaunchKernelEx", (any)launch},
    {"cuTensorMapEncodeTiled", (any)encode},
    {"cuTensorMapReplaceAddress", (any)replace},
    {"cuMemsetD32Async", (any)fill},
    {"cuMemAlloc", (any)mem_alloc},
    {"cuMemFree", (any)mem_free},
    {"cuMemGetInfo", (any)mem_info},
    {"cuMemcpyHtoDAsync", (any)copy_to},
    {"cuMemcpyDtoHAsync", (any)copy_from},
    {"cuMemcpyDtoDAsync", (any)copy_within},
    {"cuMemGetAllocationGranularity", (any)mapping_grain},
    {"cuMemAddressReserve", (any)reserve},
    {"cuMemAddressFree", (any)give_addresses_back},
    {"cuMemCreate", (any)mem_create},
    {"cuMemRelease", (any)mem_release},
    {"cuMemMap", (any)mem_map},
    {"cuMemUnmap", (any)mem_unmap},
    {"cuMemSetAccess", (any)mem_access},
    {"cuPointerGetAttribute", (any)pointer_attribute},
    {"cuStreamGetCtx", (any)stream_context},
    {"cuStreamSynchronize", (any)stream_synchronise},
    {"cuStreamCreate", (any)stream_create},
    {"cuStreamDestroy", (any)drop_handle},
    {"cuStreamBeginCapture", (any)stream_begin_capture},
    {"cuStreamEndCapture", (any)stream_end_capture},
    {"cuGraphGetNodes", (any)graph_nodes},
    {"cuGraphInstantiateWithFlags", (any)graph_instantiate},
    {"cuGraphUpload", (any)graph_run},
    {"cuGraphLaunch", (any)graph_run},
    {"cuGraphDestroy", (any)drop_handle},
    {"cuGraphExecDestroy", (any)drop_handle},
    {"cuEventCreate", (any)event_create},
    {"cuEventDestroy", (any)drop_handle},
    {"cuEventRecord", (any)event_record},
    {"cuEventSynchronize", (any)event_synchronise},
    {"cuEventElapsedTime", (any)event_elapsed},
};

EXPORT at_cu_result cuInit(unsigned int flags);
EXPORT at_cu_result cuDriverGetVersion(int *version);
EXPORT at_cu_result cuGetProcAddress_v2(const char *name, void **item, int since, uint64_t flags, int *why);

at_cu_result cuInit(unsigned int flags)
{
    (void)flags;
    return fake.init;
}

at_cu_result cuDriverGetVersion(int *version)
{
    *version = fake.version;
    return AT_CU_SUCCESS;
}

at_cu_result cuGetProcAddress_v2(const char *name, void **item, int since, uint64_t flags, int *why)
{
    any function = (any)unused;
    for (size_t i = 0; i < sizeof items / sizeof items[0]; ++i) {
        function = strcmp(items[i].name, name) == 0 ? items[i].function : function;
    }
    if (since > fake.version || flags != AT_CU_PROC_LEGACY_STREAM ||
        (fake.lacks != NULL && strcmp(fake.lacks, name) == 0)) {
        *why = 1;
        *item = NULL;
        return AT_CU_NOT_FOUND;
    }
    memcpy(item, &function, sizeof function);
    return AT_CU_SUCCESS;
}
