/* The manual page, from the tables that --help is made from. */
#include <string.h>

#include "cli/cli.h"

/* As troff prints it: a backslash and a hyphen are commands to it, and so is a dot or a quote that begins a line. */
static void print_text(const char *text, FILE *out)
{
    bool begins = true;
    for (; *text != '\0'; ++text) {
        if (begins && (*text == '.' || *text == '\'')) {
            (void)fputs("\\&", out);
        }
        if (*text == '\\') {
            (void)fputs("\\e", out);
        } else if (*text == '-') {
            (void)fputs("\\-", out);
        } else {
            (void)fputc(*text, out);
        }
        begins = *text == '\n';
    }
}

/* Lines as they are. */
static void print_lines(const char *lines, FILE *out)
{
    (void)fputs(".EX\n", out);
    print_text(lines, out);
    (void)fputs(".EE\n", out);
}

/* Paragraphs, which blank lines part. */
static void print_paragraphs(const char *text, FILE *out)
{
    char line[512];
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        (void)snprintf(line, sizeof line, "%.*s", (int)length, text);
        (void)fputs(length == 0 ? ".PP" : "", out);
        print_text(line, out);
        (void)fputc('\n', out);
        text += length + (text[length] == '\n');
    }
}

static void print_option(const at_option *option, FILE *out)
{
    (void)fputs(".TP\n.B ", out);
    print_text(option->name, out);
    if (option->argument != NULL) {
        (void)fputs(" \\fI", out);
        print_text(option->argument, out);
        (void)fputs("\\fR", out);
    }
    (void)fputc('\n', out);
    print_text(option->summary, out);
    (void)fputc('\n', out);
    if (option->values != NULL) {
        (void)fputs("(one of: ", out);
        print_text(option->values, out);
        (void)fputs(")\n", out);
    }
}

static void print_verb(const at_verb *verb, FILE *out)
{
    (void)fprintf(out, ".SS attune %s ", verb->name);
    print_text(verb->arguments, out);
    (void)fputs("\n.I ", out);
    print_text(verb->summary, out);
    (void)fputs("\n.PP\n", out);
    print_paragraphs(verb->help, out);
    const at_option *option;
    for (int i = 0; (option = at_verb_option(verb, i)) != NULL; ++i) {
        print_option(option, out);
    }
    (void)fputs(".PP\n", out);
    print_lines(verb->examples, out);
}

void at_man_print(FILE *out)
{
    (void)fprintf(out,
                  ".TH ATTUNE 1 \"\" \"attune %s\" \"User Commands\"\n.SH NAME\nattune \\- plan, prove and run fused "
                  "attention\n.SH SYNOPSIS\n.B attune\n.I VERB\n[ARGUMENTS] [OPTIONS]\n.SH VERBS\n",
                  attune_version_string());
    for (const at_verb *const *verb = at_verbs; *verb != NULL; ++verb) {
        print_verb(*verb, out);
    }
    for (const at_help_section *section = at_help_sections; section->name != NULL; ++section) {
        (void)fprintf(out, ".SH %s\n", section->name);
        print_text(section->title, out);
        (void)fputs("\n.PP\n", out);
        print_lines(section->lines, out);
    }
}
