/* For tests under the address sanitizer, linked with --wrap: buffers of gigabytes, of which strides over 2^31 touch a
 * few pages, come from mmap. The sanitizer's own would mark an eighth of them byte by byte, seconds a buffer; guard
 * bands are around them all the same. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { FAR_MAX = 64 };
static const size_t far_bytes = (size_t)1 << 30;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    void *data;
    size_t bytes;
} far[FAR_MAX];

void *__real_aligned_alloc(size_t align, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);
void __real_free(void *memory);
void __wrap_free(void *memory);

/* The place of `data`, NULL being a free one; -1: none. Under the lock. */
static int find(const void *data)
{
    for (int i = 0; i < FAR_MAX; ++i) {
        if (far[i].data == data) {
            return i;
        }
    }
    return -1;
}

void *__wrap_aligned_alloc(size_t align, size_t bytes)
{
    void *data = MAP_FAILED;
    if (bytes < far_bytes) {
        return __real_aligned_alloc(align, bytes);
    }
    (void)pthread_mutex_lock(&lock);
    int at = find(NULL);
    if (at >= 0) {
        data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    if (data != MAP_FAILED) {
        far[at].data = data;
        far[at].bytes = bytes;
    }
    (void)pthread_mutex_unlock(&lock);
    return data != MAP_FAILED ? data : NULL;
}

void __wrap_free(void *memory)
{
    size_t bytes = 0;
    if (memory == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&lock);
    int at = find(memory);
    if (at >= 0) {
        bytes = far[at].bytes;
        far[at].data = NULL;
    }
    (void)pthread_mutex_unlock(&lock);
    if (bytes == 0) {
        __real_free(memory);
    } else {
        (void)munmap(memory, bytes);
    }
}
