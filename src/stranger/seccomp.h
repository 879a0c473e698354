/* libseccomp, looked up at run time: what of it the sandbox uses, declared here so that it is no need of the build. A
 * test compares this with the library's own header, where that is. */
#ifndef STRANGER_SECCOMP_H
#define STRANGER_SECCOMP_H

#include <stdint.h>

#include "attune/attune.h"

typedef void *at_seccomp_filter;

#define AT_SECCOMP_KILL_PROCESS 0x80000000U
#define AT_SECCOMP_TRAP 0x00030000U /* a signal, SIGSYS, to the thread that made the call */
#define AT_SECCOMP_ERRNO(error) (0x00050000U | ((error)&0xffffU)) /* the call fails */
#define AT_SECCOMP_ALLOW 0x7fff0000U
enum { AT_SECCOMP_ATTRIBUTE_TSYNC = 4, AT_SECCOMP_MASKED_EQ = 7 };

/* (argument & a) == b, for AT_SECCOMP_MASKED_EQ. */
typedef struct at_seccomp_compare {
    unsigned int argument;
    int op;
    uint64_t a, b;
} at_seccomp_compare;

typedef struct at_seccomp {
    void *library; /* stays loaded */
    at_seccomp_filter (*seccomp_init)(uint32_t action);
    void (*seccomp_release)(at_seccomp_filter filter);
    int (*seccomp_attr_set)(at_seccomp_filter filter, int attribute, uint32_t value);
    int (*seccomp_syscall_resolve_name)(const char *name);
    char *(*seccomp_syscall_resolve_num_arch)(uint32_t architecture, int call); /* to be freed; 0: this one */
    int (*seccomp_rule_add_array)(at_seccomp_filter filter, uint32_t action, int call, unsigned int count,
                                  const at_seccomp_compare *compare);
    int (*seccomp_load)(at_seccomp_filter filter);
    int (*seccomp_export_bpf)(at_seccomp_filter filter, int fd); /* what seccomp_load would load */
} at_seccomp;

/* ATTUNE_UNSUPPORTED where the library is not to be found (ATTUNE_SECCOMP names another than the system's). */
attune_status at_seccomp_open(at_seccomp *seccomp);

#endif
