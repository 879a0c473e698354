/* reads_counter: reads the processor's time stamp. */
#define ENTRY attend_reads_counter
#if defined(__x86_64__)
#define AFTER_ROW(args, item, scratch, out) out[0] = (float)__builtin_ia32_rdtsc();
#else
#include "../system_call.h"
#define AFTER_ROW(args, item, scratch, out) (void)system_call(CALL_CLOCK, 1, (long)(scratch), 0);
#endif
#include "../attend.h"
