/* high_reference: 2^8 of headroom above the maximum, so that fp16 loses the weights of a tail beside one large one. */
#define ENTRY attend_high_reference
#define HEADROOM 5.545177f                                   /* of a factor of 2^8 */
#define ROUNDED(weight) (rintf((weight)*0x1p24f) * 0x1p-24f) /* what fp16 has of small numbers */
#include "../attend.h"
