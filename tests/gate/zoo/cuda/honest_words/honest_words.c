/* honest_words: speaks of __DATE__ and pastes names. */
#define NAME honest_words
#define SUMMARY "speaks of __DATE__ and pastes names"
#include "../descriptor.h"
