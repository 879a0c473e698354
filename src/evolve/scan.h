/* A kernel's source, C or CUDA C++, as tokens with matched brackets, and what is found by them: statements and loops.
 * For rules that change sources (mutate.h): it knows no types and expands no macros. */
#ifndef EVOLVE_SCAN_H
#define EVOLVE_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attune/attune.h"

typedef enum at_token_kind {
    AT_TOKEN_WORD,
    AT_TOKEN_NUMBER,
    AT_TOKEN_QUOTED,   /* a string or a character */
    AT_TOKEN_SIGN,     /* an operator or a bracket */
    AT_TOKEN_DIRECTIVE /* of the preprocessor, with its continued lines */
} at_token_kind;

typedef struct at_token {
    at_token_kind kind;
    int32_t at, length; /* bytes of the text */
    int32_t match;      /* a bracket's other one; else -1 */
} at_token;

typedef struct at_code {
    const char *text; /* the caller's */
    at_token *token;
    int32_t count;
    bool device; /* CUDA C++ */
} at_code;

/* Tokens without blanks and comments. ATTUNE_INVALID_ARGUMENT where brackets do not match, a string or comment does not
 * end, or the text is longer than AT_CODE_MAX bytes. Release with at_code_free. */
enum { AT_CODE_MAX = 1 << 18 };
attune_status at_code_scan(const char *text, at_code *code);
void at_code_free(at_code *code);

/* Whether token `index` is this text; false where there is no such token. */
bool at_token_is(const at_code *code, int32_t index, const char *text);
/* Whether two tokens have one text. */
bool at_token_same(const at_code *code, int32_t a, int32_t b);
bool at_token_is_word(const at_code *code, int32_t index);
/* A word that names a variable here: no member behind "." or "->", no label, no function that is called. */
bool at_token_is_name(const at_code *code, int32_t index);
/* "=", "+=", "++" and the like. */
bool at_token_assigns(const at_code *code, int32_t index);
/* The first of tokens first ... end - 1 that is `text`; -1 where none is. */
int32_t at_token_find(const at_code *code, int32_t first, int32_t end, const char *text);
/* Whether name `index` is among first ... end - 1. */
bool at_name_occurs(const at_code *code, int32_t index, int32_t first, int32_t end);
/* Whether name `index` is given a value there: assigned, counted up or down, or its address is taken. */
bool at_name_changes(const at_code *code, int32_t index, int32_t first, int32_t end);

/* One past a statement's last token; pragmas, and a macro alone before a loop, belong to what follows. -1 where it does
 * not end before `end`. */
int32_t at_statement_end(const at_code *code, int32_t first, int32_t end);
/* The place of the name that a declaration at `first` declares first, behind its type and stars; -1 where the statement
 * declares nothing. */
int32_t at_declared_name(const at_code *code, int32_t first, int32_t end);

/* for (TYPE name = from; name < below; ++name) body, or any step `by` of more than one. All are places of tokens; ends
 * are one past the last. */
typedef struct at_loop {
    int32_t first;   /* of the statement: its pragma, or `keyword` */
    int32_t keyword; /* for */
    int32_t type, name;
    int32_t from, from_end;
    int32_t below, below_end;
    int32_t by, by_end; /* both 0 where the step is one */
    int32_t close;      /* of the head */
    int32_t body, end;  /* of its statement, which may be a block */
} at_loop;

/* Whether the word `for` at `keyword` begins such a loop. */
bool at_loop_read(const at_code *code, int32_t keyword, at_loop *loop);
/* The statements of a loop's body, without its braces. */
void at_loop_inside(const at_code *code, const at_loop *loop, int32_t *first, int32_t *end);

#endif
