/* Packs: round trips, and files that are none. */
#include "base/cm.h"
#include "base/file.h"
#include "base/folder.h"
#include "cuda/pack.h"

static at_artifact made(int index, size_t bytes)
{
    char name[16];
    at_artifact artifact;
    (void)snprintf(name, sizeof name, "%d", index);
    assert_ok(at_artifact_reserve(&artifact, bytes, 7));
    at_digest_of(name, strlen(name), artifact.build);
    memset(artifact.cubin, index, bytes);
    memcpy(artifact.log, "the log", 7);
    artifact.compiler = 13000;
    return artifact;
}

static void round_trip(void **state)
{
    folder here;
    at_artifact found;
    at_pack *pack = NULL;
    at_artifact artifact[4] = {made(1, 100), made(2, 0), made(1, 50), made(3, 5000)};
    (void)state;
    assert_int_equal(folder_make(&here), 0);
    assert_ok(at_pack_write(folder_file(&here, "pack"), artifact, 4));
    assert_ok(at_pack_read(folder_file(&here, "pack"), &pack));
    assert_int_equal(at_pack_count(pack), 3); /* the first of equal builds */
    assert_true(at_pack_find(pack, artifact[0].build, &found));
    assert_int_equal(found.cubin_bytes, 100);
    assert_int_equal(found.cubin[99], 1);
    assert_string_equal(found.log, "the log");
    assert_int_equal(found.compiler, 13000);
    at_artifact_free(&found);
    assert_true(at_pack_find(pack, artifact[3].build, &found));
    assert_int_equal(found.cubin_bytes, 5000);
    at_artifact_free(&found);
    assert_false(at_pack_find(pack, "nothing", &found));
    assert_false(at_pack_find(NULL, artifact[0].build, &found));
    at_pack_destroy(pack);
    at_pack_destroy(NULL);
    for (int i = 0; i < 4; ++i) {
        at_artifact_free(&artifact[i]);
    }
    folder_remove(&here);
}

static void damage_is_reported(void **state)
{
    folder here;
    at_pack *pack = NULL;
    void *data = NULL;
    size_t bytes = 0;
    at_artifact artifact[2] = {made(1, 100), made(2, 300)};
    (void)state;
    assert_int_equal(folder_make(&here), 0);
    const char *path = folder_file(&here, "pack");
    assert_fails(at_pack_read(path, &pack), ATTUNE_NOT_FOUND, "pack");
    assert_ok(at_pack_write(path, artifact, 2));
    assert_ok(at_file_read(path, 1 << 20, &data, &bytes));
    unsigned char *byte = data;
    for (size_t length = 0; length < bytes; ++length) {
        assert_int_equal(at_pack_parse(data, length, &pack), ATTUNE_CORRUPT);
        assert_null(pack);
    }
    for (size_t at = 0; at < bytes; ++at) {
        byte[at] ^= 1;
        assert_int_equal(at_pack_parse(data, bytes, &pack), ATTUNE_CORRUPT);
        byte[at] ^= 1;
    }
    byte[12] = 1; /* fewer entries than there are */
    assert_fails(at_pack_parse(data, bytes, &pack), ATTUNE_CORRUPT, "behind the last entry");
    assert_fails(at_pack_parse((const unsigned char *)"attunepk\2\0\0\0\0\0\0\0", 16, &pack), ATTUNE_CORRUPT,
                 "version 2");
    assert_fails(at_pack_parse((const unsigned char *)"attunepk\1\0\0\0\377\377\377\177", 16, &pack), ATTUNE_CORRUPT,
                 "2147483647 entries");
    assert_ok(at_file_write(path, "no pack at all, but long", 24));
    assert_fails(at_pack_read(path, &pack), ATTUNE_CORRUPT, "attune export");
    free(data);
    at_artifact_free(&artifact[0]);
    at_artifact_free(&artifact[1]);
    folder_remove(&here);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(round_trip), cmocka_unit_test(damage_is_reported)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
