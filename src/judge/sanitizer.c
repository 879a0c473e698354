#include "judge/sanitizer.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/scratch.h"
#include "base/status.h"
#include "library/catalogue.h"
#include "wire/process.h"

enum {
    LOG_MAX = 16 << 20,
    WORDS_MAX = 48,
    REPORTS = 86 /* the exit code of one who found something */
};

/* ---- What is known of its tools ---------------------------------------------------------------------------------- */

static const char *const tools[AT_SANITIZER_TOOLS] = {
    [AT_MEMCHECK] = "memcheck",
    [AT_INITCHECK] = "initcheck",
    [AT_RACECHECK] = "racecheck",
};

/* Of the library's kernels: which tool does not follow what they do, and why. Its reports of them are recorded and
 * decide nothing; whatever is not here is the kernel's fault. */
static const struct {
    const char *kernel;
    at_sanitizer_tool tool;
    const char *why;
} exceptions[] = {
    {"wgmma", AT_RACECHECK,
     "bulk copies (cp.async.bulk) fill its rings of tiles and mbarriers say when, which racecheck takes for races"},
    {NULL, AT_RACECHECK, NULL},
};

/* Of a stranger's kernel nobody here can look at the places. */
static const char strangers_races[] =
    "racecheck does not follow mbarriers, nor parts of a block that meet unequally often (docs/notes/ladder.md): look "
    "at the place";

static bool is_named(const char *kernel, const char *name)
{
    const size_t length = strcspn(kernel, ":");
    return strlen(name) == length && strncmp(kernel, name, length) == 0;
}

static bool is_the_librarys(const char *kernel)
{
    for (const attune_kernel *const *one = at_catalogue; *one != NULL; ++one) {
        if (is_named(kernel, (*one)->name)) {
            return true;
        }
    }
    return false;
}

const char *at_sanitizer_excuse(at_sanitizer_tool tool, const char *kernel)
{
    if (kernel == NULL || !is_the_librarys(kernel)) {
        return tool == AT_RACECHECK ? strangers_races : NULL;
    }
    for (int i = 0; exceptions[i].kernel != NULL; ++i) {
        if (exceptions[i].tool == tool && is_named(kernel, exceptions[i].kernel)) {
            return exceptions[i].why;
        }
    }
    return NULL;
}

const char *at_sanitizer_excepted(int index)
{
    return exceptions[index].kernel;
}

attune_status at_sanitizer_find(char **sanitizer)
{
    return at_process_find("ATTUNE_SANITIZER", "compute-sanitizer", sanitizer);
}

attune_problem at_sanitizer_problem(const attune_problem *problem)
{
    enum { ROWS = 100, KEYS = 1100, FEW = 32, HEADS = 2 };
    const int64_t group = problem->heads_q / problem->heads_kv;
    attune_problem small = *problem;
    small.batch = small.batch > HEADS ? HEADS : small.batch;
    small.heads_kv = small.heads_kv > HEADS ? HEADS : small.heads_kv;
    small.heads_q = small.heads_kv * group;
    small.seqlen_q = small.seqlen_q > ROWS ? ROWS : small.seqlen_q;
    /* kernels for few queries take no problem of few keys */
    const int64_t area = small.seqlen_q == 0 ? ROWS : (int64_t)ROWS * ROWS / small.seqlen_q;
    const int64_t keys = small.seqlen_q > 0 && small.seqlen_q <= FEW ? KEYS : area;
    small.seqlen_kv = small.seqlen_kv > keys ? keys : small.seqlen_kv;
    return small;
}

/* ---- What it says ------------------------------------------------------------------------------------------------ */

/* Whether a line of the log begins a report: details are further to the right, summaries are in capitals. */
static bool is_report(const char *line, size_t length)
{
    static const char *const words[] = {"Invalid ",      "Uninitialized ", "Error: Race",   "Warning: Race",
                                        "Race reported", "Misaligned ",    "Out-of-range ", "Program hit ",
                                        "Barrier error", "Potential "};
    static const char mark[] = "========= ";
    const size_t skip = sizeof mark - 1;
    for (size_t i = 0; length > skip && strncmp(line, mark, skip) == 0 && i < sizeof words / sizeof words[0]; ++i) {
        const size_t bytes = strlen(words[i]);
        if (length >= skip + bytes && strncmp(line + skip, words[i], bytes) == 0) {
            return true;
        }
    }
    return false;
}

/* What a log holds. */
typedef struct hearing {
    int reports;
    bool summed_up; /* it got to its end */
    char *first;
} hearing;

static void read_log(const char *log, hearing *of)
{
    while (*log != '\0') {
        const size_t length = strcspn(log, "\n");
        of->summed_up |= memmem(log, length, " SUMMARY: ", strlen(" SUMMARY: ")) != NULL;
        if (is_report(log, length) && of->reports++ == 0) {
            (void)snprintf(of->first, AT_SANITIZER_SEEN, "%.*s", (int)(length - 10), log + 10);
        }
        log += length + (log[length] == '\n');
    }
}

/* Each process has a log of its own. */
static attune_status read_logs(const char *folder, hearing *of)
{
    DIR *open = opendir(folder);
    AT_FAIL_IF(open == NULL, ATTUNE_IO_ERROR, "%s cannot be read", folder);
    attune_status status = ATTUNE_OK;
    for (const struct dirent *entry = readdir(open); entry != NULL && status == ATTUNE_OK; entry = readdir(open)) {
        char path[PATH_MAX];
        void *text;
        size_t bytes;
        if (strncmp(entry->d_name, "log", 3) != 0) {
            continue;
        }
        (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        status = at_file_read(path, LOG_MAX, &text, &bytes);
        if (status == ATTUNE_OK) {
            read_log(text, of);
            free(text);
        }
    }
    (void)closedir(open);
    return status;
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

static attune_status run_in(const char *folder, const char *sanitizer, at_sanitizer_tool tool,
                            const char *const *command, double patience_s, hearing *of)
{
    char log[PATH_MAX], said[AT_SAID_MAX], how[160], code[16];
    const char *word[WORDS_MAX] = {
        sanitizer, "--tool",        tools[tool], "--target-processes", "all", "--require-cuda-init",
        "no",      "--print-limit", "20",        "--error-exitcode",   code,  "--log-file",
        log};
    size_t count = 13;
    int end = 0;
    (void)snprintf(log, sizeof log, "%s/log%%p", folder);
    (void)snprintf(code, sizeof code, "%d", REPORTS);
    for (; *command != NULL; ++command) {
        AT_FAIL_IF(count + 1 == WORDS_MAX, ATTUNE_INVALID_ARGUMENT, "a command of too many words for a sanitizer");
        word[count++] = *command;
    }
    AT_FORWARD(at_process_run(word, patience_s, said, &end));
    AT_FORWARD(read_logs(folder, of));
    const int left = WIFEXITED(end) ? WEXITSTATUS(end) : -1;
    AT_FAIL_IF(left != 0 && left != REPORTS && of->reports == 0, ATTUNE_UNSUPPORTED, "it %s: %.300s",
               at_process_end(end, how), said);
    AT_FAIL_IF(left == 0 && of->reports == 0 && !of->summed_up, ATTUNE_UNSUPPORTED,
               "its log has no summary, so it did not get to its end: %.300s", said);
    of->reports += of->reports == 0 && left == REPORTS;
    return ATTUNE_OK;
}

void at_sanitizer_miss(at_sanitizer_tool tool, at_sanitizer_finding *finding)
{
    *finding = (at_sanitizer_finding){.ran = false};
    (void)snprintf(finding->tool, sizeof finding->tool, "%s", tools[tool]);
    (void)snprintf(finding->account, sizeof finding->account, "%s", attune_last_detail());
    for (size_t end = strlen(finding->account); end > 0 && finding->account[end - 1] == '\n'; --end) {
        finding->account[end - 1] = '\0';
    }
}

void at_sanitizer_run(const char *sanitizer, at_sanitizer_tool tool, const char *kernel, const char *const *command,
                      double patience_s, at_sanitizer_finding *finding)
{
    at_scratch folder;
    char first[AT_SANITIZER_SEEN] = "it does not say what";
    hearing heard = {.first = first};
    attune_status status = at_scratch_make(&folder);
    if (status == ATTUNE_OK) {
        status = run_in(folder.path, sanitizer, tool, command, patience_s, &heard);
        at_scratch_remove(&folder);
    }
    at_sanitizer_miss(tool, finding);
    if (status == ATTUNE_OK) {
        const char *excuse = at_sanitizer_excuse(tool, kernel);
        finding->ran = true;
        finding->reports = heard.reports;
        (void)snprintf(finding->first, sizeof finding->first, "%s", heard.reports > 0 ? first : "");
        (void)snprintf(finding->account, sizeof finding->account, "%s", excuse != NULL ? excuse : "");
    }
}

/* ---- What follows ------------------------------------------------------------------------------------------------ */

bool at_sanitizer_refutes(const at_sanitizer_finding *finding)
{
    return finding->ran && finding->reports > 0 && finding->account[0] == '\0';
}

const char *at_sanitizer_print(const at_sanitizer_finding *finding, char text[AT_SANITIZER_SENTENCE])
{
    enum { MOST = AT_SANITIZER_SENTENCE };
    const bool excused = finding->account[0] != '\0';
    if (!finding->ran) {
        (void)snprintf(text, MOST, "%s: not checked: %s", finding->tool, finding->account);
    } else if (finding->reports == 0) {
        (void)snprintf(text, MOST, "%s: nothing", finding->tool);
    } else {
        (void)snprintf(text, MOST, "%s: %d reports, the first: %s%s%s", finding->tool, finding->reports, finding->first,
                       excused ? "; decides nothing: " : "", finding->account);
    }
    return text;
}
