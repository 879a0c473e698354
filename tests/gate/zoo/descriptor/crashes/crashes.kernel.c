#include "../nothing.h"
