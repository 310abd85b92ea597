/* Prints --help from the tables of the commands. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "tools/cli/program.h"
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
    fprintf(out, "usage: %s %s %s%s[options]\n\n", tutti_command_program(command), command->name,
            command->operands, command->operands[0] != '\0' ? " " : "");
    print_wrapped(out, command->text, 0, 0);
    fprintf(out, "\noptions:\n");
    for (size_t i = 0; i < command->option_count; i++)
        print_option(&command->options[i], out);
    print_option(&tutti_help_option, out);
    fprintf(out, "\nexamples:\n");
    print_examples(command->examples, "  ", out);
}

void tutti_cli_program_usage(const struct tutti_cli_program *program, FILE *out)
{
    fprintf(out, "usage: %s %s\n\n%s\n\ncommands:\n", program->name, program->form,
            program->summary);
    for (size_t i = 0; i < program->command_count; i++)
        fprintf(out, "  %-18s %s\n", program->commands[i]->name, program->commands[i]->summary);
    fprintf(out, "  %-18s print the help of a command%s\n  %-18s print the version\n\n%s",
            "help [COMMAND]", program->has_man_pages ? "; with --man its man page" : "",
            "--version", program->text);
}
