/* SHA-256 for what is kept and must be trusted, and a fast 64-bit hash for keys in memory. */
#ifndef BASE_DIGEST_H
#define BASE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#define AT_DIGEST_BYTES 32
#define AT_DIGEST_TEXT_MAX (2 * AT_DIGEST_BYTES + 1) /* 64 hex digits and the terminating zero */

/* A digest under way (FIPS 180-4). Any number of adds gives the digest of everything added, in order. */
typedef struct at_sha256 {
    uint32_t state[8];
    uint64_t bytes;
    unsigned char block[64];
} at_sha256;

void at_sha256_init(at_sha256 *sha);
void at_sha256_add(at_sha256 *sha, const void *data, size_t bytes);
/* Ends the digest; init again before further use. */
void at_sha256_end(at_sha256 *sha, unsigned char digest[AT_DIGEST_BYTES]);

/* Lower-case hex of a digest. */
void at_digest_text(const unsigned char digest[AT_DIGEST_BYTES], char text[AT_DIGEST_TEXT_MAX]);
/* The hex digest of one piece of memory. */
void at_digest_of(const void *data, size_t bytes, char text[AT_DIGEST_TEXT_MAX]);

/* Equal bytes and seeds give equal hashes on every machine. Not for files or anything an adversary chooses. Chain
 * several pieces by passing one's hash as the next one's seed. */
uint64_t at_hash64(const void *data, size_t bytes, uint64_t seed);

#endif
