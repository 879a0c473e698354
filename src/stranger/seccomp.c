#include "stranger/seccomp.h"

#include "base/status.h"
#include "cuda/load.h"

attune_status at_seccomp_open(at_seccomp *seccomp)
{
    static const char *const names[] = {"libseccomp.so.2", "libseccomp.so", NULL};
    *seccomp = (at_seccomp){0};
    AT_FORWARD(at_load_library(ATTUNE_UNSUPPORTED, "sandbox: libseccomp", "ATTUNE_SECCOMP", names, &seccomp->library));
#define ITEM(name)                                                                                                     \
    AT_FORWARD(at_load_symbol(ATTUNE_UNSUPPORTED, "libseccomp", seccomp->library, #name, &seccomp->name,               \
                              sizeof seccomp->name))
    ITEM(seccomp_init);
    ITEM(seccomp_release);
    ITEM(seccomp_attr_set);
    ITEM(seccomp_syscall_resolve_name);
    ITEM(seccomp_syscall_resolve_num_arch);
    ITEM(seccomp_rule_add_array);
    ITEM(seccomp_load);
    ITEM(seccomp_export_bpf);
#undef ITEM
    return ATTUNE_OK;
}
