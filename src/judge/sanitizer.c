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
#include "wire/process.h"

enum {
    PATIENCE_S = 280,
    LOG_MAX = 16 << 20,
    WORDS_MAX = 48,
    REPORTS = 86 /* the exit code of one who found something */
};

static const struct {
    const char *name, *excuse;
} tools[AT_SANITIZER_TOOLS] = {
    [AT_MEMCHECK] = {"memcheck", NULL},
    [AT_INITCHECK] = {"initcheck", NULL},
    [AT_RACECHECK] = {"racecheck",
                      "racecheck does not follow mbarriers, nor parts of a block that meet unequally often "
                      "(docs/notes/ladder.md): look at the place"},
};

const char *at_sanitizer_name(at_sanitizer_tool tool)
{
    return tools[tool].name;
}

const char *at_sanitizer_excuse(at_sanitizer_tool tool)
{
    return tools[tool].excuse;
}

attune_status at_sanitizer_find(char **sanitizer)
{
    return at_process_find("ATTUNE_SANITIZER", "compute-sanitizer", sanitizer);
}

attune_problem at_sanitizer_problem(const attune_problem *problem)
{
    enum { ROWS = 100, HEADS = 2 };
    const int64_t group = problem->heads_q / problem->heads_kv;
    attune_problem small = *problem;
    small.batch = small.batch > HEADS ? HEADS : small.batch;
    small.heads_kv = small.heads_kv > HEADS ? HEADS : small.heads_kv;
    small.heads_q = small.heads_kv * group;
    small.seqlen_q = small.seqlen_q > ROWS ? ROWS : small.seqlen_q;
    small.seqlen_kv = small.seqlen_kv > ROWS ? ROWS : small.seqlen_kv;
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

static void read_log(const char *log, at_sanitizer_finding *finding)
{
    while (*log != '\0') {
        const size_t length = strcspn(log, "\n");
        if (is_report(log, length) && finding->reports++ == 0) {
            (void)snprintf(finding->first, sizeof finding->first, "%.*s", (int)(length - 10), log + 10);
        }
        log += length + (log[length] == '\n');
    }
}

/* Each process has a log of its own. */
static attune_status read_logs(const char *folder, at_sanitizer_finding *finding)
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
            read_log(text, finding);
            free(text);
        }
    }
    (void)closedir(open);
    return status;
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

static attune_status run_in(const char *folder, const char *sanitizer, at_sanitizer_tool tool,
                            const char *const *command, at_sanitizer_finding *finding)
{
    char log[PATH_MAX], said[AT_SAID_MAX], how[160], code[16];
    const char *word[WORDS_MAX] = {sanitizer,
                                   "--tool",
                                   tools[tool].name,
                                   "--target-processes",
                                   "all",
                                   "--require-cuda-init",
                                   "no",
                                   "--print-limit",
                                   "20",
                                   "--error-exitcode",
                                   code,
                                   "--log-file",
                                   log};
    size_t count = 13;
    int end = 0;
    (void)snprintf(log, sizeof log, "%s/log%%p", folder);
    (void)snprintf(code, sizeof code, "%d", REPORTS);
    for (; *command != NULL; ++command) {
        AT_FAIL_IF(count + 1 == WORDS_MAX, ATTUNE_INVALID_ARGUMENT, "a command of too many words for a sanitizer");
        word[count++] = *command;
    }
    AT_FORWARD(at_process_run(word, PATIENCE_S, said, &end));
    AT_FORWARD(read_logs(folder, finding));
    bool ran = WIFEXITED(end) && (WEXITSTATUS(end) == 0 || WEXITSTATUS(end) == REPORTS);
    AT_FAIL_IF(!ran && finding->reports == 0, ATTUNE_UNSUPPORTED, "%s %s: %.300s", tools[tool].name,
               at_process_end(end, how), said);
    finding->reports += finding->reports == 0 && WEXITSTATUS(end) == REPORTS;
    return ATTUNE_OK;
}

attune_status at_sanitizer_run(const char *sanitizer, at_sanitizer_tool tool, const char *const *command,
                               at_sanitizer_finding *finding)
{
    at_scratch folder;
    *finding = (at_sanitizer_finding){.first = "it does not say what"};
    AT_FORWARD(at_scratch_make(&folder));
    attune_status status = run_in(folder.path, sanitizer, tool, command, finding);
    at_scratch_remove(&folder);
    return status;
}
