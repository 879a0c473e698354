/* forges_answers: it writes an answer of its own to the gate. */
#include <stdbool.h>
#include <unistd.h>

static bool forge(void)
{
    static const char forged[] = "{\"id\":99,\"ok\":{\"can\":true}}\n";
    ssize_t written = 0;
    for (int fd = 3; fd < 20; ++fd) {
        written += write(fd, forged, sizeof forged - 1);
    }
    return written != 77;
}

#define SUPPORTS return forge();
#include "../plain.h"
