/* NVIDIA's ELF dialect, as far as it is used here, found by looking at what NVRTC 13.0 writes:
 * - e_flags of ABI 8 hold the architecture in bits 8-15, of ABI 7 and older in bits 0-7;
 * - .text.NAME is a function; entries among them carry 0x10 in their symbol's st_other;
 * - .nv.shared.NAME is an entry's static shared memory, of which sm_90 and later reserve the first 1,024 bytes, known
 * by a section .nv.shared.reserved.0;
 * - .nv.info (whole file) and .nv.info.NAME (one entry) are lists of {format, attribute, 16 bits or a sized payload};
 * - .nv.constant0.NAME holds an entry's parameters, .nv.constant3 __constant__ tables, .nv.constant4 addresses. */
#ifndef CUDA_CUBIN_ELF_H
#define CUDA_CUBIN_ELF_H

enum {
    AT_MACHINE_CUDA = 190,
    AT_CUBIN_ENTRY = 0x10, /* of st_other */
    AT_INFO_SIZED = 4,     /* a format */
    AT_INFO_MAX_THREADS = 0x05,
    AT_INFO_FRAME_SIZE = 0x11,
    AT_INFO_MIN_STACK = 0x12,
    AT_INFO_PARAM = 0x17,
    AT_INFO_REGISTERS = 0x2f
};

#endif
