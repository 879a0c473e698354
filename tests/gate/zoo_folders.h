/* The zoo: folders of kernels that are known to be bad, or known to be honest, and what the gate must say of each.
 * zoo/folders.sh makes them in the build folder. Lines of an expect.txt:
 *
 *     problem b1,h4,s200,d64,fp16,causal      instead of the test's own
 *     sanity: was not written                 a stage, and words of the reason it must give; any one such line will do
 *     right                                   an honest kernel: never called wrong
 *     alone                                   judged on a device while nothing else runs there (tools/test-gpu.sh)
 */
#ifndef TESTS_GATE_ZOO_FOLDERS_H
#define TESTS_GATE_ZOO_FOLDERS_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cm.h"
#include "base/file.h"

enum { ZOO_MOST = 120 };

typedef struct zoo_animal {
    char folder[512];
    char name[64];
    char problem[128];
    char expect[2048]; /* the lines that say what the gate must */
    bool alone;
} zoo_animal;

/* A line of expect.txt, with its end. */
static inline void zoo_read_line(zoo_animal *animal, const char *line, size_t length)
{
    static const char problem[] = "problem ";
    const size_t to_text = sizeof problem - 1;
    size_t held = strlen(animal->expect);
    if (length > to_text && strncmp(line, problem, to_text) == 0) {
        (void)snprintf(animal->problem, sizeof animal->problem, "%.*s", (int)strcspn(line + to_text, "\n"),
                       line + to_text);
    } else if (strcspn(line, "\n") == 5 && strncmp(line, "alone", 5) == 0) {
        animal->alone = true;
    } else {
        (void)snprintf(animal->expect + held, sizeof animal->expect - held, "%.*s", (int)length, line);
    }
}

static inline void zoo_read(zoo_animal *animal, const char *problem)
{
    char path[600];
    void *text;
    (void)snprintf(path, sizeof path, "%s/expect.txt", animal->folder);
    assert_ok(at_file_read(path, sizeof animal->expect - 1, &text, &(size_t){0}));
    (void)snprintf(animal->problem, sizeof animal->problem, "%s", problem);
    animal->expect[0] = '\0';
    animal->alone = false;
    for (const char *line = text; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        length += line[length] == '\n';
        zoo_read_line(animal, line, length);
        line += length;
    }
    free(text);
}

/* Reads all folders that are there, in the order of their names; returns how many there are. */
static inline int zoo_read_from(const char *where, const char *problem, zoo_animal animal[ZOO_MOST])
{
    struct dirent **entry;
    int count = 0;
    int entries = scandir(where, &entry, NULL, alphasort);
    assert_true(entries > 0);
    for (int i = 0; i < entries; ++i) {
        if (strchr(entry[i]->d_name, '.') == NULL) {
            assert_true(count < ZOO_MOST);
            (void)snprintf(animal[count].folder, sizeof animal[count].folder, "%.400s/%.60s", where, entry[i]->d_name);
            (void)snprintf(animal[count].name, sizeof animal[count].name, "%.60s", entry[i]->d_name);
            zoo_read(&animal[count++], problem);
        }
        free(entry[i]);
    }
    free(entry);
    return count;
}

#ifdef ATTUNE_BINARY_DIR
/* The same of a part of the zoo in the build folder. */
static inline int zoo_read_all(const char *part, const char *problem, zoo_animal animal[ZOO_MOST])
{
    char where[400];
    (void)snprintf(where, sizeof where, "%s/zoo/%s", ATTUNE_BINARY_DIR, part);
    return zoo_read_from(where, problem, animal);
}
#endif

/* Whether a failure of `stage` for the reason `why` is one of those expected. */
static inline bool zoo_expects(const zoo_animal *animal, const char *stage, const char *why)
{
    for (const char *line = animal->expect; *line != '\0';) {
        char words[256];
        size_t length = strcspn(line, "\n");
        size_t to_words = strlen(stage) + 2;
        if (length > to_words && strncmp(line, stage, strlen(stage)) == 0 && line[strlen(stage)] == ':') {
            (void)snprintf(words, sizeof words, "%.*s", (int)(length - to_words), line + to_words);
            if (strstr(why, words) != NULL) {
                return true;
            }
        }
        line += length + (line[length] == '\n');
    }
    return false;
}

static inline bool zoo_is_honest(const zoo_animal *animal)
{
    return strncmp(animal->expect, "right", 5) == 0;
}

/* Sanitizers explain a crash by starting other programs, which no sandbox allows; and they read clocks. */
static inline void zoo_calm_sanitizers(void)
{
#if defined(ATTUNE_SANITIZED)
    assert_int_equal(setenv("ASAN_OPTIONS", "handle_segv=0:handle_sigbus=0:symbolize=0:detect_leaks=0", 1), 0);
    assert_int_equal(setenv("UBSAN_OPTIONS", "handle_segv=0:symbolize=0", 1), 0);
#endif
}

static inline bool zoo_is_beyond_sanitizers(const zoo_animal *animal)
{
#if defined(ATTUNE_SANITIZED)
    return strcmp(animal->name, "reads_counter") == 0 || strcmp(animal->name, "takes_memory") == 0;
#else
    (void)animal;
    return false;
#endif
}

#endif
