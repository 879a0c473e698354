#include "cli/progress.h"

#include <string.h>
#include <unistd.h>

#include "report/table.h"

enum { BAR_WIDTH = 30, PATIENCE_MS = 1000, REDRAW_MS = 100 };
static const int64_t ns_per_ms = 1000000;

void at_progress_start_on(at_progress *progress, FILE *out, const char *label, at_clock clock)
{
    *progress = (at_progress){.out = out, .clock = clock};
    progress->start_ns = clock.now_ns(clock.self);
    at_progress_label(progress, label);
}

void at_progress_start(at_progress *progress, FILE *out, const char *label)
{
    int fd = fileno(out);
    at_progress_start_on(progress, fd >= 0 && isatty(fd) ? out : NULL, label, at_clock_monotonic());
}

void at_progress_label(at_progress *progress, const char *label)
{
    (void)snprintf(progress->label, sizeof progress->label, "%s", label);
}

static void draw(const at_progress *progress, double done, int64_t spent_ms)
{
    char bar[BAR_WIDTH + 1];
    int filled = (int)(done * BAR_WIDTH);
    memset(bar, '.', BAR_WIDTH);
    memset(bar, '#', (size_t)filled);
    bar[BAR_WIDTH] = '\0';
    (void)fprintf(progress->out, "\r%s [%s] %3d%%", progress->label, bar, (int)(done * 100));
    if (done > 0.02) {
        (void)fprintf(progress->out, ", %lld s left", (long long)((double)spent_ms * (1 / done - 1) / 1000 + 0.5));
    }
    (void)fputs("\033[K", progress->out); /* what is left of a longer line */
    (void)fflush(progress->out);
}

void at_progress_update(at_progress *progress, double done)
{
    if (progress->out == NULL) {
        return;
    }
    int64_t now = progress->clock.now_ns(progress->clock.self);
    bool early = now - progress->start_ns < PATIENCE_MS * ns_per_ms;
    if (early || (progress->shown && now - progress->last_ns < REDRAW_MS * ns_per_ms)) {
        return;
    }
    progress->shown = true;
    progress->last_ns = now;
    draw(progress, done < 0 ? 0 : done > 1 ? 1 : done, (now - progress->start_ns) / ns_per_ms);
}

void at_progress_show(at_progress *progress, double done)
{
    if (progress->out != NULL) {
        progress->start_ns = progress->shown ? progress->start_ns : progress->start_ns - PATIENCE_MS * ns_per_ms;
        at_progress_update(progress, done);
    }
}

void at_progress_end(at_progress *progress)
{
    if (progress->out != NULL && progress->shown) {
        (void)fputs("\r\033[K", progress->out);
        (void)fflush(progress->out);
        progress->shown = false;
    }
}
