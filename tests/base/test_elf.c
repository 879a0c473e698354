/* Digests of object files: this very compiler's, of sources that differ in what runs and in what does not. */
#include <stdlib.h>
#include <unistd.h>

#include "base/cm.h"
#include "base/elf.h"
#include "base/file.h"
#include "base/folder.h"

static bool covers(const at_elf *file, const char *name, const Elf64_Shdr *section)
{
    (void)file;
    return (section->sh_flags & SHF_ALLOC) != 0 && section->sh_type != SHT_NOTE && strncmp(name, ".eh_frame", 9) != 0;
}

static attune_status digest_bytes(const void *data, size_t bytes, char digest[AT_DIGEST_TEXT_MAX])
{
    static const at_elf_rules rules = {.flags = UINT32_MAX, .covers = covers};
    Elf64_Ehdr head = {.e_machine = 0};
    at_elf file;
    memcpy(&head, data, bytes < sizeof head ? bytes : sizeof head);
    attune_status status = at_elf_open("object", head.e_machine, data, bytes, &file);
    return status == ATTUNE_OK ? at_elf_digest(&file, &rules, digest) : status;
}

/* Of the object that the system's compiler makes; the test is skipped where there is none. */
static void *compiled(const char *source, const char *options, size_t *bytes)
{
    folder f;
    char command[3 * PATH_MAX], path[PATH_MAX], object[PATH_MAX];
    void *data = NULL;
    assert_int_equal(folder_make(&f), 0);
    (void)snprintf(path, sizeof path, "%s", folder_file(&f, "a.c"));
    (void)folder_path(&f, "a.o", object);
    assert_ok(at_file_write(path, source, strlen(source)));
    (void)snprintf(command, sizeof command, "cc -O2 -fPIC %s -c '%s' -o '%s' 2>/dev/null", options, path, object);
    bool made = system(command) == 0;
    if (made) {
        assert_ok(at_file_read(object, 1 << 24, &data, bytes));
    }
    folder_remove(&f);
    if (!made) {
        skip();
    }
    return data;
}

typedef struct digest {
    char text[AT_DIGEST_TEXT_MAX];
} digest;

static digest digested(const char *source, const char *options)
{
    digest of;
    size_t bytes;
    void *data = compiled(source, options, &bytes);
    assert_ok(digest_bytes(data, bytes, of.text));
    free(data);
    return of;
}

static const char source[] = "extern double sink(double);\nstatic const double table[4] = {1, 2, 3, 4};\n"
                             "static __attribute__((noinline)) double part(int i) { return table[i & 3] * 3.5; }\n"
                             "double whole(int i) { return sink(part(i)) + 7; }\n";

static void same(const char *other, const char *options)
{
    assert_string_equal(digested(source, "").text, digested(other, options).text);
}

static void different(const char *from, const char *to)
{
    const char *at = strstr(source, from);
    char *other;
    assert_non_null(at);
    assert_true(asprintf(&other, "%.*s%s%s", (int)(at - source), source, to, at + strlen(from)) > 0);
    assert_string_not_equal(digested(source, "").text, digested(other, "").text);
    free(other);
}

static void names_comments_and_debugging_do_not_matter(void **state)
{
    (void)state;
    same(source, "-g");
    same("/* said */\n\nextern double sink(double);\nenum { SEVEN = 7 };\n"
         "static const double numbers[4] = {1, 2, 3, 4};\n"
         "static __attribute__((noinline)) double piece(int k) { return numbers[k & 3] * 3.5; }\n"
         "double whole(int i) { return sink(piece(i)) + SEVEN; }\n",
         "");
}

static void code_data_and_references_matter(void **state)
{
    (void)state;
    different("i & 3", "i & 1");
    different("3, 4}", "3, 5}");
    different("+ 7", "+ 8");
    different("double whole", "double other");
    different("extern double sink(double)",
              "extern double sunk(double);\n#define sink sunk\nextern double sink(double)");
}

static void damage_is_survived(void **state)
{
    (void)state;
    size_t bytes;
    char text[AT_DIGEST_TEXT_MAX];
    unsigned char *data = compiled(source, "", &bytes);
    for (size_t cut = 0; cut < bytes; ++cut) {
        unsigned char *part = malloc(cut + 1);
        assert_non_null(part);
        memcpy(part, data, cut);
        (void)digest_bytes(part, cut, text);
        free(part);
    }
    for (size_t at = 0; at < bytes; ++at) {
        unsigned char kept = data[at];
        data[at] ^= 0xff;
        (void)digest_bytes(data, bytes, text);
        data[at] = kept;
    }
    assert_fails(digest_bytes("", 0, text), ATTUNE_CORRUPT, "0 bytes");
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_comments_and_debugging_do_not_matter),
        cmocka_unit_test(code_data_and_references_matter),
        cmocka_unit_test(damage_is_survived),
    };
    return cmocka_run_group_tests_name("elf", tests, NULL, NULL);
}
