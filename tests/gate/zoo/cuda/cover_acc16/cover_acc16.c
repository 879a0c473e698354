/* cover_acc16: declares sums in fp16, and rounds the weights of the softmax to four bits instead. */
#define NAME cover_acc16
#define SUMMARY "declares sums in fp16, and rounds the weights of the softmax to four bits instead"
#define TRAITS (ATTUNE_TRAIT_ACC16)
#define REFUSES(p, t) (p->dtype == ATTUNE_FP16 ? NULL : "dtype: fp16 only")
#include "../descriptor.h"
