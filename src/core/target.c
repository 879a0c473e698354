#include "core/target.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"

static const char *const isa_names[ATTUNE_ISA_COUNT] = {"baseline", "avx2", "avx512", "avx512_bf16", "amx"};

const char *at_isa_name(attune_isa isa)
{
    return (int)isa >= 0 && isa < ATTUNE_ISA_COUNT ? isa_names[isa] : "?";
}

attune_status at_isa_parse(const char *text, attune_isa *isa)
{
    AT_FAIL_IF(text == NULL, ATTUNE_INVALID_ARGUMENT, "isa is NULL");
    for (int i = 0; i < ATTUNE_ISA_COUNT; ++i) {
        if (strcmp(text, isa_names[i]) == 0) {
            *isa = (attune_isa)i;
            return ATTUNE_OK;
        }
    }
    return at_fail(ATTUNE_INVALID_ARGUMENT,
                   "isa '%.40s' is unknown: baseline, avx2, avx512, avx512_bf16 or amx is needed", text);
}

/* A model as one word without the separators of the text form. */
static void print_model(const char *model, char word[64])
{
    size_t length = strnlen(model, 63);
    for (size_t i = 0; i < length; ++i) {
        unsigned char letter = (unsigned char)model[i];
        word[i] = letter <= ' ' || letter >= 0x7f || letter == '/' || letter == ',' ? '_' : (char)letter;
    }
    word[length] = '\0';
    if (length == 0) {
        memcpy(word, "unknown", sizeof "unknown");
    }
}

void at_target_print(const attune_target *target, char text[AT_TARGET_TEXT_MAX])
{
    char model[64];
    print_model(target->model, model);
    if (target->kind == ATTUNE_TARGET_CPU) {
        (void)snprintf(text, AT_TARGET_TEXT_MAX, "cpu/%s/%s,threads=%d", model, at_isa_name(target->isa),
                       target->threads);
        return;
    }
    (void)snprintf(text, AT_TARGET_TEXT_MAX, "cuda/%s/%d%s,sm=%d,driver=%d,compiler=%d", model, target->arch,
                   target->arch_features ? "a" : "", target->sm_count, target->driver, target->compiler);
}

/* Length of the first two parts, or 0 where there are fewer. */
static size_t model_length(const char *text)
{
    const char *first = strchr(text, '/');
    const char *second = first != NULL ? strchr(first + 1, '/') : NULL;
    return second != NULL ? (size_t)(second - text) : 0;
}

int at_target_alike(const char *a, const char *b)
{
    size_t length = model_length(a);
    bool same_model = length > 0 && length == model_length(b) && memcmp(a, b, length) == 0;
    return same_model && (strncmp(a, "cpu/", 4) != 0 || strcmp(a, b) == 0);
}

/* Multiprocessors of a device's text, and its architecture up to the comma behind; 0 where it is no device's. */
static int multiprocessors(const char *text, const char **arch, size_t *length)
{
    const size_t model = model_length(text);
    if (strncmp(text, "cuda/", 5) != 0 || model == 0) {
        return 0;
    }
    *arch = text + model + 1;
    *length = strcspn(*arch, ",");
    const char *digits = *arch + *length;
    const long count = strncmp(digits, ",sm=", 4) == 0 ? strtol(digits + 4, NULL, 10) : 0;
    return count > 0 && count <= INT_MAX ? (int)count : 0;
}

int at_target_distance(const char *a, const char *b)
{
    const char *arch[2] = {NULL, NULL};
    size_t length[2] = {0, 0};
    const int first = multiprocessors(a, &arch[0], &length[0]), second = multiprocessors(b, &arch[1], &length[1]);
    if (first == 0 || second == 0 || length[0] != length[1] || memcmp(arch[0], arch[1], length[0]) != 0) {
        return -1;
    }
    const int apart = abs(first - second);
    return 10 * (int64_t)apart <= first ? apart : -1;
}

attune_status at_target_parse(const char *text, attune_target_kind *kind, int *device)
{
    int64_t number = 0;
    AT_FAIL_IF(text == NULL, ATTUNE_INVALID_ARGUMENT, "target is NULL");
    if (strcmp(text, "cpu") == 0) {
        *kind = ATTUNE_TARGET_CPU;
        *device = -1;
        return ATTUNE_OK;
    }
    AT_FAIL_IF(strncmp(text, "cuda", 4) != 0 || (text[4] != '\0' && text[4] != ':'), ATTUNE_INVALID_ARGUMENT,
               "target '%.40s' is unknown: cpu, cuda or cuda:N is needed", text);
    if (text[4] == ':') {
        AT_FORWARD(at_parse_int64("the device of target cuda:N", text + 5, 0, 1023, &number));
    }
    *kind = ATTUNE_TARGET_CUDA;
    *device = (int)number;
    return ATTUNE_OK;
}
