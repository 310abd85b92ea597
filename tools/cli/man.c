/* Prints man pages from the tables of the commands. */
#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "build.h"
#include "tools/cli/files.h"
#include "tools/options.h"

enum { ROFF_COLUMNS = 78 };

/* A word of text: backslash and dash have a meaning to roff, and so do a dot and a quote at the
 * start of a line. Returns how many columns it took. */
static int print_word(FILE *out, const char *word, int bytes, bool line_start)
{
    int columns = 0;

    if (line_start && (*word == '.' || *word == '\''))
        columns += fprintf(out, "\\&");
    for (int i = 0; i < bytes; i++) {
        if (word[i] == '\\')
            columns += fprintf(out, "\\e");
        else if (word[i] == '-')
            columns += fprintf(out, "\\-");
        else
            columns += fprintf(out, "%c", word[i]);
    }
    return columns;
}

/* How many columns print_word() takes at most. */
static int word_columns(const char *word, int bytes)
{
    int columns = bytes + 2;

    for (int i = 0; i < bytes; i++)
        columns += word[i] == '\\' || word[i] == '-';
    return columns;
}

/* Text that man fills: lines broken where it pleases, an empty line begins a paragraph. `column` is
 * where the line stands already. Ends the line. */
static void print_filled(FILE *out, const char *text, int column)
{
    while (*text != '\0') {
        int bytes = (int)strcspn(text, " \n");

        if (column > 0 && column + 1 + word_columns(text, bytes) > ROFF_COLUMNS) {
            fputc('\n', out);
            column = 0;
        }
        if (column > 0)
            column += fprintf(out, " ");
        column += print_word(out, text, bytes, column == 0);
        text += bytes;
        if (text[0] == '\n' && text[1] == '\n') {
            fputs("\n.PP\n", out);
            column = 0;
        }
        text += strspn(text, " \n");
    }
    fputc('\n', out);
}

/* Text as it stands, line by line. */
static void print_lines(FILE *out, const char *text)
{
    while (*text != '\0') {
        int bytes = (int)strcspn(text, "\n");

        (void)print_word(out, text, bytes, true);
        fputc('\n', out);
        text += bytes + (text[bytes] == '\n');
    }
}

static void print_option(const struct tutti_option *option, FILE *out)
{
    char form[256];
    char text[1024];
    const char *begin;

    (void)tutti_option_form(option, form, sizeof(form));
    tutti_option_text(option, text, sizeof(text));
    begin = form + strspn(form, " ");
    fprintf(out, ".TP\n.B ");
    (void)print_word(out, begin, (int)strlen(begin), false);
    fputc('\n', out);
    print_filled(out, text, 0);
}

static void print_title(const char *page, FILE *out)
{
    fprintf(out, ".TH ");
    for (; *page != '\0'; page++)
        fputc(toupper((unsigned char)*page), out);
    fprintf(out, " 1 \"%s\" \"tutti %s\" \"User Commands\"\n.SH NAME\n", TUTTI_BUILD_DATE,
            TUTTI_BUILD_VERSION);
}

static const char exit_text[] =
    ".SH EXIT STATUS\n.TP\n.B 0\ndone\n.TP\n.B 1\nfailed, or a check did not hold\n"
    ".TP\n.B 2\nwrong usage or input\n.TP\n.B 77\nthis machine or this build lacks\nwhat it needs, "
    "time or "
    "memory to simulate it included\n";

/* "tutti-topo-show" for "topo show". */
static void name_page(const struct tutti_command *command, char *buf, size_t buf_bytes)
{
    (void)snprintf(buf, buf_bytes, "tutti-%s", command->name);
    for (char *p = buf; *p != '\0'; p++)
        *p = (char)(*p == ' ' ? '-' : *p);
}

void tutti_man_print(const struct tutti_command *command, FILE *out)
{
    char page[64];
    int column;

    name_page(command, page, sizeof(page));
    print_title(page, out);
    column = print_word(out, page, (int)strlen(page), true);
    column += fprintf(out, " \\-");
    print_filled(out, command->summary, column);
    fprintf(out, ".SH SYNOPSIS\n.B tutti %s\n", command->name);
    if (command->operands[0] != '\0') {
        fprintf(out, ".I ");
        print_lines(out, command->operands);
    }
    fprintf(out, ".RI [ options ]\n.SH DESCRIPTION\n");
    print_filled(out, command->text, 0);
    fprintf(out, ".SH OPTIONS\n");
    for (size_t i = 0; i < command->option_count; i++)
        print_option(&command->options[i], out);
    print_option(&tutti_help_option, out);
    fprintf(out, "%s.SH EXAMPLES\n.nf\n", exit_text);
    print_lines(out, command->examples);
    fprintf(out, ".fi\n.SH SEE ALSO\n.BR tutti (1)\n");
}

void tutti_man_print_all(FILE *out)
{
    size_t count = 0;
    const struct tutti_command *const *commands = tutti_commands(&count);

    print_title("tutti", out);
    fprintf(out, "tutti \\- predict what collectives cost and play them here\n"
                 ".SH SYNOPSIS\n.B tutti\n.I COMMAND\n.RI [ SPEC ]\n.RI [ options ]\n"
                 ".SH DESCRIPTION\nPredicts what collectives cost on a machine that one may not "
                 "own,\nand plays the very same schedule on the machine at hand.\n.PP\n");
    print_filled(out,
                 "SPEC is a machine: a preset such as dgx-h100:nodes=2 ('tutti topo list' shows "
                 "all), or a file: NCCL topology XML, or the text that 'tutti topo convert' "
                 "writes.",
                 0);
    fprintf(out, ".SH COMMANDS\n");
    for (size_t i = 0; i < count; i++) {
        fprintf(out, ".TP\n.B %s\n", commands[i]->name);
        print_filled(out, commands[i]->summary, 0);
    }
    fprintf(out, "%s.SH SEE ALSO\n", exit_text);
    for (size_t i = 0; i < count; i++) {
        char page[64];

        name_page(commands[i], page, sizeof(page));
        fprintf(out, ".BR ");
        (void)print_word(out, page, (int)strlen(page), false);
        fprintf(out, " (1)%s\n", i + 1 < count ? "," : "");
    }
}

/* One page; `command` NULL: that of tutti itself. */
static int write_page(const char *directory, const struct tutti_command *command,
                      struct tutti_sink *sink, struct tutti_err *err)
{
    char path[1024];
    char page[64] = "tutti";
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    int status;

    if (out == NULL)
        return tutti_nomem(err);
    if (command != NULL) {
        name_page(command, page, sizeof(page));
        tutti_man_print(command, out);
    } else {
        tutti_man_print_all(out);
    }
    if (fclose(out) != 0)
        status = tutti_nomem(err);
    else if (snprintf(path, sizeof(path), "%s/%s.1", directory, page) >= (int)sizeof(path))
        status = tutti_fail(err, TUTTI_EINVAL, "the name '%.40s...' is too long", directory);
    else
        status = tutti_file_write(path, text, bytes, sink, err);
    free(text);
    return status;
}

int tutti_man_write(const char *directory, struct tutti_sink *sink, struct tutti_err *err)
{
    size_t count = 0;
    const struct tutti_command *const *commands = tutti_commands(&count);
    int status = write_page(directory, NULL, sink, err);

    for (size_t i = 0; i < count && status == 0; i++)
        status = write_page(directory, commands[i], sink, err);
    return status;
}
