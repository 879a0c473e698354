/* The 16-bit storage types, converted on the host with round to nearest even. NaN stays NaN, infinities and subnormals
 * are kept. */
#ifndef BASE_HALF_H
#define BASE_HALF_H

#include <stdint.h>

uint16_t at_fp16_from_float(float value);
float at_fp16_to_float(uint16_t bits);
uint16_t at_bf16_from_float(float value);
float at_bf16_to_float(uint16_t bits);
/* Many at once, by the machine's own instruction where it has one: it makes signalling NaNs quiet. */
void at_fp16_to_floats(const uint16_t *bits, int64_t count, float *to);
void at_bf16_to_floats(const uint16_t *bits, int64_t count, float *to);

#endif
