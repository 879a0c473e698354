/* scratch_memo: keeps rows in its scratch and gives them again to whoever asks at the same address. */
#define NAME scratch_memo
#define SUMMARY "keeps rows in its scratch and gives them again to whoever asks at the same address"
#define SCRATCH ((12288 + 256) * 4 + 16 * 272)
#include "../descriptor.h"
