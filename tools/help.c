/* Prints --help and man pages from the tables of the commands. */
#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "build.h"
#include "tools/options.h"

enum { HELP_COLUMNS = 96, HELP_INDENT = 28 };

/* Prints `text` wrapped, each line after the first behind `indent` blanks; `column` is where the
 * first line begins. */
static void print_wrapped(FILE *out, const char *text, int indent, int column)
{
    while (*text != '\0') {
        int word = (int)strcspn(text, " \n");

        if (column > indent && column + 1 + word > HELP_COLUMNS) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
        }
        if (column > indent) {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", word, text);
        column += word;
        text += word;
        if (text[0] == '\n' && text[1] == '\n') {
            fprintf(out, "\n\n%*s", indent, "");
            column = indent;
        }
        text += strspn(text, " \n");
    }
    fputc('\n', out);
}

/* "-b, --minbytes SIZE"; returns its length. */
static int option_form(const struct tutti_option *option, char *buf, size_t buf_bytes)
{
    char letter[8] = "    ";
    int length;

    if (option->letter != 0)
        (void)snprintf(letter, sizeof(letter), "-%c, ", option->letter);
    length = snprintf(buf, buf_bytes, "%s--%s%s%s", letter, option->name,
                      option->type == TUTTI_OPTION_FLAG ? "" : " ",
                      option->type == TUTTI_OPTION_FLAG ? "" : option->value);
    assert(length > 0 && (size_t)length < buf_bytes);
    return length;
}

static void option_text(const struct tutti_option *option, char *buf, size_t buf_bytes)
{
    int length;

    if (option->standard != NULL)
        length = snprintf(buf, buf_bytes, "%s (standard: %s)", option->help, option->standard);
    else
        length = snprintf(buf, buf_bytes, "%s", option->help);
    assert(length > 0 && (size_t)length < buf_bytes);
}

static void print_option(const struct tutti_option *option, FILE *out)
{
    char form[256];
    char text[1024];
    int length = option_form(option, form, sizeof(form));

    option_text(option, text, sizeof(text));
    fprintf(out, "  %s", form);
    if (length + 4 > HELP_INDENT)
        fprintf(out, "\n%*s", HELP_INDENT, "");
    else
        fprintf(out, "%*s", HELP_INDENT - length - 2, "");
    print_wrapped(out, text, HELP_INDENT, HELP_INDENT);
}

static const struct tutti_option help_option = {
    .letter = 'h', .name = "help", .type = TUTTI_OPTION_FLAG, .help = "print this and do nothing"};

static void print_examples(const char *examples, const char *prefix, FILE *out)
{
    for (const char *p = examples; *p != '\0';) {
        int length = (int)strcspn(p, "\n");

        fprintf(out, "%s%.*s\n", prefix, length, p);
        p += length + (p[length] == '\n');
    }
}

void tutti_help_print(const struct tutti_command *command, FILE *out)
{
    fprintf(out, "usage: tutti %s %s%s[options]\n\n", command->name, command->operands,
            command->operands[0] != '\0' ? " " : "");
    print_wrapped(out, command->text, 0, 0);
    fprintf(out, "\noptions:\n");
    for (size_t i = 0; i < command->option_count; i++)
        print_option(&command->options[i], out);
    print_option(&help_option, out);
    fprintf(out, "\nexamples:\n");
    print_examples(command->examples, "  ", out);
}

/* ---- man(7) ---------------------------------------------------------------------------------- */

/* Roff takes a backslash, a dash and a dot or quote at the start of a line for its own. */
static void print_roff(FILE *out, const char *text)
{
    bool line_start = true;

    for (; *text != '\0'; text++) {
        if (line_start && (*text == '.' || *text == '\''))
            fputs("\\&", out);
        line_start = *text == '\n';
        if (*text == '\\')
            fputs("\\e", out);
        else if (*text == '-')
            fputs("\\-", out);
        else if (text[0] == '\n' && text[1] == '\n') {
            fputs("\n.PP\n", out);
            text++;
            line_start = true;
        } else
            fputc(*text, out);
    }
}

/* Filled text: one input line a sentence is not needed, but a line must not begin with a blank. */
static void print_roff_option(const struct tutti_option *option, FILE *out)
{
    char form[256];
    char text[1024];

    (void)option_form(option, form, sizeof(form));
    option_text(option, text, sizeof(text));
    fprintf(out, ".TP\n.B ");
    print_roff(out, form + strspn(form, " "));
    fputc('\n', out);
    print_roff(out, text);
    fputc('\n', out);
}

static void print_title(const char *page, FILE *out)
{
    char upper[64];
    size_t i = 0;

    for (; page[i] != '\0' && i + 1 < sizeof(upper); i++)
        upper[i] = (char)(page[i] == ' ' ? '-' : toupper((unsigned char)page[i]));
    upper[i] = '\0';
    fprintf(out, ".TH %s 1 \"\" \"tutti %s\" \"User Commands\"\n", upper, TUTTI_BUILD_VERSION);
}

static const char exit_text[] =
    ".SH EXIT STATUS\n.TP\n.B 0\ndone\n.TP\n.B 1\nfailed, or a check did not hold\n"
    ".TP\n.B 2\nwrong usage or input\n.TP\n.B 77\nthis machine or this build lacks what it needs\n";

void tutti_man_print(const struct tutti_command *command, FILE *out)
{
    char page[64];

    (void)snprintf(page, sizeof(page), "tutti %s", command->name);
    print_title(page, out);
    for (char *p = page; *p != '\0'; p++)
        *p = (char)(*p == ' ' ? '-' : *p);
    fprintf(out, ".SH NAME\n");
    print_roff(out, page);
    fprintf(out, " \\- ");
    print_roff(out, command->summary);
    fprintf(out, "\n.SH SYNOPSIS\n.B tutti %s\n.RI ", command->name);
    print_roff(out, command->operands);
    fprintf(out, "%s[options]\n.SH DESCRIPTION\n", command->operands[0] != '\0' ? " " : "");
    print_roff(out, command->text);
    fprintf(out, "\n.SH OPTIONS\n");
    for (size_t i = 0; i < command->option_count; i++)
        print_roff_option(&command->options[i], out);
    print_roff_option(&help_option, out);
    fprintf(out, "%s.SH EXAMPLES\n.nf\n", exit_text);
    print_roff(out, command->examples);
    fprintf(out, "\n.fi\n.SH SEE ALSO\n.BR tutti (1)\n");
}

void tutti_usage_print(FILE *out)
{
    size_t count = 0;
    const struct tutti_command *const *commands = tutti_commands(&count);

    fprintf(out,
            "usage: tutti COMMAND [SPEC] [options]\n\n"
            "Predicts what collectives cost on a machine, and plays the same schedule here.\n\n"
            "commands:\n");
    for (size_t i = 0; i < count; i++)
        fprintf(out, "  %-18s %s\n", commands[i]->name, commands[i]->summary);
    fprintf(out, "  %-18s %s\n  %-18s %s\n\n", "help [COMMAND]", "print the help of a command",
            "--version", "print the version");
    fprintf(out, "SPEC is a machine: a preset such as 'dgx-h100:nodes=2' ('tutti topo list' shows "
                 "all),\nor a file: NCCL topology XML, or the text of 'tutti topo convert'.\n\n"
                 "examples:\n"
                 "  tutti compare dgx-h100\n"
                 "  tutti predict dgx-h100:nodes=16 -a ring,hierarchical -b 1M -e 1G -f 4\n"
                 "  tutti run -B threads -g 4 -a ring -b 64K -e 16M -f 4\n");
}

void tutti_man_print_all(FILE *out)
{
    size_t count = 0;
    const struct tutti_command *const *commands = tutti_commands(&count);

    print_title("tutti", out);
    fprintf(out, ".SH NAME\ntutti \\- predict what collectives cost and play them here\n"
                 ".SH SYNOPSIS\n.B tutti\n.I COMMAND\n.RI [ SPEC ]\n.RI [ options ]\n"
                 ".SH DESCRIPTION\nPredicts what collectives cost on a machine that one may not "
                 "own,\nand plays the very same schedule on the machine at hand.\n.SH COMMANDS\n");
    for (size_t i = 0; i < count; i++) {
        fprintf(out, ".TP\n.B ");
        print_roff(out, commands[i]->name);
        fputc('\n', out);
        print_roff(out, commands[i]->summary);
        fputc('\n', out);
    }
    fprintf(out, "%s.SH SEE ALSO\n", exit_text);
    for (size_t i = 0; i < count; i++) {
        char page[64];

        (void)snprintf(page, sizeof(page), "tutti-%s", commands[i]->name);
        for (char *p = page; *p != '\0'; p++)
            *p = (char)(*p == ' ' ? '-' : *p);
        fprintf(out, ".BR ");
        print_roff(out, page);
        fprintf(out, " (1)%s\n", i + 1 < count ? "," : "");
    }
}
