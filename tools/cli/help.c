/* Prints --help from the tables of the commands. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

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

int tutti_option_form(const struct tutti_option *option, char *buf, size_t buf_bytes)
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

void tutti_option_text(const struct tutti_option *option, char *buf, size_t buf_bytes)
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
    int length = tutti_option_form(option, form, sizeof(form));

    tutti_option_text(option, text, sizeof(text));
    fprintf(out, "  %s", form);
    if (length + 4 > HELP_INDENT)
        fprintf(out, "\n%*s", HELP_INDENT, "");
    else
        fprintf(out, "%*s", HELP_INDENT - length - 2, "");
    print_wrapped(out, text, HELP_INDENT, HELP_INDENT);
}

const struct tutti_option tutti_help_option = {
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
    print_option(&tutti_help_option, out);
    fprintf(out, "\nexamples:\n");
    print_examples(command->examples, "  ", out);
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
    fprintf(out, "  %-18s %s\n  %-18s %s\n\n", "help [COMMAND]",
            "print the help of a command; with --man its man page", "--version",
            "print the version");
    fprintf(out, "SPEC is a machine: a preset such as 'dgx-h100:nodes=2' ('tutti topo list' shows "
                 "all),\nor a file: NCCL topology XML, or the text of 'tutti topo convert'.\n\n"
                 "Not yet: steps and strategies of training, parameter servers, what fits into "
                 "memory, failures,\nmoney; playing on GPUs.\n\n"
                 "examples:\n"
                 "  tutti compare dgx-h100\n"
                 "  tutti predict dgx-h100:nodes=16 -a ring,hierarchical -b 1M -e 1G -f 4\n"
                 "  tutti run -B threads -g 4 -a ring -b 64K -e 16M -f 4\n");
}
