/* coarse_without_lse: without LSE the weights of the softmax have three bits. */
#define ENTRY attend_coarse_without_lse
#include <string.h>

/* Three bits behind the leading one, as e4m3 has. */
static float coarse(float weight)
{
    unsigned bits;
    memcpy(&bits, &weight, sizeof bits);
    bits = (bits + 0x7ffff + (bits >> 20 & 1)) & 0xfff00000u;
    memcpy(&weight, &bits, sizeof bits);
    return weight;
}

#define ROUNDED(weight) (t[ATTUNE_LSE].data == NULL ? coarse(weight) : (weight))
#include "../attend.h"
