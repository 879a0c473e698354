#include "base/cm.h"

#include <stdlib.h>

#include "base/digest.h"

/* Examples of FIPS 180-4 and of NIST's test vectors (SHA256ShortMsg, SHA256LongMsg). */
static void sha256_agrees_with_nist(void **state)
{
    (void)state;
    static const struct {
        const char *text, *digest;
    } vectors[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"\xd3", "28969cdfa74a12c82f3bad960b0b000aca2ac329deea5c2328ebc6f2ba9802c1"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqr"
         "stu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        char text[AT_DIGEST_TEXT_MAX];
        at_digest_of(vectors[i].text, strlen(vectors[i].text), text);
        assert_string_equal(text, vectors[i].digest);
    }
}

static void sha256_of_a_million_letters(void **state)
{
    (void)state;
    char *letters = malloc(1000000), text[AT_DIGEST_TEXT_MAX];
    assert_non_null(letters);
    memset(letters, 'a', 1000000);
    at_digest_of(letters, 1000000, text);
    free(letters);
    assert_string_equal(text, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void sha256_does_not_see_the_pieces(void **state)
{
    (void)state;
    unsigned char data[300];
    for (size_t i = 0; i < sizeof data; i++) {
        data[i] = (unsigned char)(i * 7);
    }
    /* Every length around the block's edges, in pieces of every small size. */
    for (size_t bytes = 0; bytes < sizeof data; bytes += bytes < 50 || bytes > 140 ? 13 : 1) {
        char whole[AT_DIGEST_TEXT_MAX], text[AT_DIGEST_TEXT_MAX];
        at_digest_of(data, bytes, whole);
        for (size_t piece = 1; piece < 70; piece += 3) {
            at_sha256 sha;
            unsigned char digest[AT_DIGEST_BYTES];
            at_sha256_init(&sha);
            for (size_t at = 0; at < bytes; at += piece) {
                at_sha256_add(&sha, data + at, bytes - at < piece ? bytes - at : piece);
            }
            at_sha256_end(&sha, digest);
            at_digest_text(digest, text);
            assert_string_equal(text, whole);
        }
    }
}

static int count_bits(uint64_t value)
{
    return __builtin_popcountll(value);
}

static void hash_spreads(void **state)
{
    (void)state;
    unsigned char data[40] = {0};
    uint64_t plain = at_hash64(data, sizeof data, 0);
    assert_true(plain == at_hash64(data, sizeof data, 0));
    assert_true(plain != at_hash64(data, sizeof data - 1, 0));
    assert_true(plain != at_hash64(data, sizeof data, 1));
    assert_true(at_hash64(NULL, 0, 0) != at_hash64(NULL, 0, 1));
    /* Flipping any one bit, in whole words and in the tail, changes about half of the result. */
    int total = 0, cases = 0;
    for (size_t bytes = 1; bytes <= sizeof data; bytes += 3) {
        uint64_t before = at_hash64(data, bytes, 5);
        for (size_t bit = 0; bit < 8 * bytes; bit++, cases++) {
            data[bit / 8] ^= (unsigned char)(1u << (bit % 8));
            int changed = count_bits(before ^ at_hash64(data, bytes, 5));
            data[bit / 8] ^= (unsigned char)(1u << (bit % 8));
            assert_in_range(changed, 8, 56);
            total += changed;
        }
    }
    assert_in_range(total / cases, 30, 34);
}

static void hash_is_pinned(void **state)
{
    (void)state;
    /* Problems print their hash: it must be the same on every machine and in every version. */
    assert_true(at_hash64("attune", 6, 0) == 0xb09107f880908f2fu);
    assert_true(at_hash64("b1,h8,s512,d64,fp16,causal", 26, 42) == 0x7e07367c93b0a450u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_agrees_with_nist),
        cmocka_unit_test(sha256_of_a_million_letters),
        cmocka_unit_test(sha256_does_not_see_the_pieces),
        cmocka_unit_test(hash_spreads),
        cmocka_unit_test(hash_is_pinned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
