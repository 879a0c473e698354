#include "base/digest.h"

#include <string.h>

/* The first 32 bits of the fractions of the cube roots of the first 64 primes. */
static const uint32_t round_constant[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t value, int by)
{
    return value >> by | value << (32 - by);
}

static uint32_t load_big(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void store_big(unsigned char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++) {
        at[i] = (unsigned char)(value >> (24 - 8 * i));
    }
}

static void schedule(uint32_t w[64], const unsigned char *block)
{
    for (int i = 0; i < 16; i++) {
        w[i] = load_big(block + 4 * i);
    }
    for (int i = 16; i < 64; i++) {
        uint32_t s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
}

static void compress(uint32_t state[8], const unsigned char *block)
{
    uint32_t w[64], v[8];
    schedule(w, block);
    memcpy(v, state, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t s1 = rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25);
        uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint32_t t1 = v[7] + s1 + choice + round_constant[i] + w[i];
        uint32_t s0 = rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22);
        uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        memmove(v + 1, v, 7 * sizeof v[0]);
        v[4] += t1;
        v[0] = t1 + s0 + majority;
    }
    for (int i = 0; i < 8; i++) {
        state[i] += v[i];
    }
}

void at_sha256_init(at_sha256 *sha)
{
    static const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memset(sha, 0, sizeof *sha);
    memcpy(sha->state, initial, sizeof initial);
}

void at_sha256_add(at_sha256 *sha, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    size_t held = (size_t)(sha->bytes % sizeof sha->block);
    sha->bytes += bytes;
    while (bytes > 0) {
        if (held == 0 && bytes >= sizeof sha->block) {
            compress(sha->state, at);
            at += sizeof sha->block;
            bytes -= sizeof sha->block;
            continue;
        }
        size_t part = sizeof sha->block - held < bytes ? sizeof sha->block - held : bytes;
        memcpy(sha->block + held, at, part);
        held += part;
        at += part;
        bytes -= part;
        if (held == sizeof sha->block) {
            compress(sha->state, sha->block);
            held = 0;
        }
    }
}

void at_sha256_end(at_sha256 *sha, unsigned char digest[AT_DIGEST_BYTES])
{
    static const unsigned char padding[64] = {0x80};
    unsigned char length[8];
    uint64_t bits = sha->bytes * 8;
    store_big(length, (uint32_t)(bits >> 32));
    store_big(length + 4, (uint32_t)bits);
    size_t held = (size_t)(sha->bytes % sizeof sha->block);
    at_sha256_add(sha, padding, held < 56 ? 56 - held : 120 - held);
    at_sha256_add(sha, length, sizeof length);
    for (int i = 0; i < 8; i++) {
        store_big(digest + 4 * i, sha->state[i]);
    }
}

void at_digest_text(const unsigned char digest[AT_DIGEST_BYTES], char text[AT_DIGEST_TEXT_MAX])
{
    static const char hex[] = "0123456789abcdef";
    for (int i = 0; i < AT_DIGEST_BYTES; i++) {
        text[2 * i] = hex[digest[i] >> 4];
        text[2 * i + 1] = hex[digest[i] & 15];
    }
    text[AT_DIGEST_TEXT_MAX - 1] = '\0';
}

void at_digest_of(const void *data, size_t bytes, char text[AT_DIGEST_TEXT_MAX])
{
    at_sha256 sha;
    unsigned char digest[AT_DIGEST_BYTES];
    at_sha256_init(&sha);
    at_sha256_add(&sha, data, bytes);
    at_sha256_end(&sha, digest);
    at_digest_text(digest, text);
}

/* Up to eight bytes, least significant first whatever the machine's order. */
static uint64_t load_little(const unsigned char *at, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) {
        value |= (uint64_t)at[i] << (8 * i);
    }
    return value;
}

static uint64_t mix64(uint64_t value)
{
    value = (value ^ value >> 32) * 0xd6e8feb86659fd93u;
    value = (value ^ value >> 32) * 0xd6e8feb86659fd93u;
    return value ^ value >> 32;
}

uint64_t at_hash64(const void *data, size_t bytes, uint64_t seed)
{
    const unsigned char *at = data;
    uint64_t hash = mix64(seed + 0x9e3779b97f4a7c15u) ^ bytes;
    for (size_t left = bytes; left >= 8; left -= 8, at += 8) {
        /* A rotation between two multiplications carries high bits back to where the next word meets them. */
        uint64_t word = (hash ^ load_little(at, 8)) * 0x9fb21c651e98df25u;
        hash = word << 29 | word >> 35;
    }
    hash ^= load_little(at, bytes % 8);
    return mix64(hash * 0x9fb21c651e98df25u);
}
