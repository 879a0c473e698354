#include "evolve/patience.h"

#include <math.h>

#include "base/file.h"
#include "base/status.h"
#include "evolve/race.h"

attune_status at_patience_block(const at_patience *patience, at_block *block)
{
    static const double first_s = 0.05, longest_s = 4;
    double waited_s = 0, pause_s = first_s;
    for (;;) {
        *block = (at_block){.mode = AT_MODE_WARM};
        AT_FORWARD(patience->block(patience->self, block));
        if (at_block_counts(block)) {
            return ATTUNE_OK;
        }
        AT_FAIL_IF(at_file_interrupted(), ATTUNE_INTERRUPTED, "interrupted while the device is disturbed");
        AT_FAIL_IF(waited_s >= AT_PATIENCE_S, AT_DISTURBED,
                   "for %d s all blocks were disturbed: the device is too hot, or others use it", AT_PATIENCE_S);
        patience->pause(patience->self, pause_s);
        waited_s += pause_s;
        pause_s = fmin(2 * pause_s, longest_s);
    }
}
