/* tutti completion: what a shell needs to complete command lines, from the tables of options. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/coll.h"
#include "runtime/model.h"
#include "runtime/schedule.h"
#include "tools/commands.h"
#include "tools/options.h"
#include "topo/topo.h"

enum { WORDS_BYTES = 2048, HELP_COLUMNS_MAX = 70 };

enum shell { BASH, ZSH, FISH, SHELL_COUNT };

static const char *const shells[SHELL_COUNT] = {"bash", "zsh", "fish"};

/* ---- what comes behind an option ------------------------------------------------------------- */

static void add_word(char *words, const char *word)
{
    size_t used = strlen(words);

    (void)snprintf(words + used, WORDS_BYTES - used, "%s%s", used > 0 ? " " : "", word);
}

static void add_presets(char *words)
{
    size_t count = 0;
    const struct tutti_preset *presets = tutti_presets(&count);

    for (size_t i = 0; i < count; i++)
        add_word(words, presets[i].name);
}

static void add_models(char *words)
{
    struct tutti_model_entry entry;

    for (size_t i = 0; tutti_model_at(i, &entry); i++)
        add_word(words, entry.name);
}

static void add_algorithms(char *words)
{
    static const char *const others[] = {"auto",      "all",      "nccl",     "nccl:ring",
                                         "nccl:tree", "nccl:pat", "nccl:nvls"};
    size_t count = 0;
    const struct tutti_algorithm *algorithms = tutti_algorithms(&count);

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        add_word(words, others[i]);
    for (size_t i = 0; i < count; i++)
        add_word(words, algorithms[i].name);
}

/* The words that an option takes, separated by blanks; "" for any. `of_files`: or files. */
static void words_of(const struct tutti_option *option, char *words, bool *of_files)
{
    const char *value = option->value != NULL ? option->value : "";

    words[0] = '\0';
    *of_files = strstr(value, "FILE") != NULL || strstr(value, "FOLDER") != NULL ||
                strstr(value, "DIR") != NULL || strcmp(value, "SPEC") == 0;
    if (option->type == TUTTI_OPTION_CHOICE) {
        add_word(words, value);
        for (char *p = words; *p != '\0'; p++)
            *p = *p == '|' ? ' ' : *p;
    } else if (strcmp(value, "SPEC") == 0) {
        add_presets(words);
    } else if (strncmp(value, "MODEL", 5) == 0) {
        add_models(words);
    } else if (strcmp(option->name, "collective") == 0) {
        for (int i = 0; i < TUTTI_CUSTOM; i++)
            add_word(words, tutti_collective_name((enum tutti_collective)i));
    } else if (strcmp(option->name, "datatype") == 0) {
        for (int i = 0; i < TUTTI_DTYPE_COUNT; i++)
            add_word(words, tutti_dtype_name((enum tutti_dtype)i));
    } else if (strcmp(option->name, "op") == 0) {
        for (int i = 0; i < TUTTI_OP_COUNT; i++)
            add_word(words, tutti_op_name((enum tutti_op)i));
    } else if (strcmp(option->name, "algorithm") == 0) {
        add_algorithms(words);
    } else if (strcmp(option->name, "backend") == 0) {
        add_word(words, "threads tcp mpi sim");
    } else if (strcmp(value, "0|1") == 0) {
        add_word(words, "0 1");
    }
}

/* The same of the words that are no options: "SPEC", "[FILE]", "bash|zsh|fish". */
static void operand_words_of(const struct tutti_command *command, char *words, bool *of_files)
{
    const char *operands = command->operands;

    words[0] = '\0';
    *of_files = strstr(operands, "FILE") != NULL || strstr(operands, "FOLDER") != NULL ||
                strstr(operands, "SPEC") != NULL;
    if (strstr(operands, "SPEC") != NULL || strstr(operands, "PRESET") != NULL)
        add_presets(words);
    if (strstr(operands, "MODEL") != NULL)
        add_models(words);
    if (strchr(operands, '|') != NULL && !*of_files)
        add_word(words, operands);
    for (char *p = words; *p != '\0'; p++)
        *p = *p == '|' ? ' ' : *p;
}

/* Help in one line without what shells take for their own: "parallel lanes that share the data". */
static const char *brief(const char *help, char buf[HELP_COLUMNS_MAX + 1])
{
    size_t bytes = strcspn(help, "();:");
    size_t used = 0;

    for (size_t i = 0; i < bytes && used < HELP_COLUMNS_MAX; i++)
        buf[used++] = strchr("'\"[]\\`$", help[i]) != NULL ? ' ' : help[i];
    while (used > 0 && buf[used - 1] == ' ')
        used--;
    buf[used] = '\0';
    return buf;
}

/* The first word of a name, and the second or "". */
static void split(const char *name, char first[64], char second[64])
{
    size_t bytes = strcspn(name, " ");

    (void)snprintf(first, 64, "%.*s", (int)bytes, name);
    (void)snprintf(second, 64, "%s", name[bytes] == ' ' ? name + bytes + 1 : "");
}

/* ---- bash ------------------------------------------------------------------------------------ */

static void bash_command(const struct tutti_command *command, FILE *out)
{
    char words[WORDS_BYTES];
    bool files;

    fprintf(out, "    '%s%s)\n        options='-h --help", command->name,
            strchr(command->name, ' ') == NULL ? " '*" : "'");
    for (size_t i = 0; i < command->option_count; i++) {
        if (command->options[i].letter != 0)
            fprintf(out, " -%c", command->options[i].letter);
        fprintf(out, " --%s", command->options[i].name);
    }
    fprintf(out, "'\n        case $before in\n");
    for (size_t i = 0; i < command->option_count; i++) {
        const struct tutti_option *option = &command->options[i];

        if (option->type == TUTTI_OPTION_FLAG)
            continue;
        words_of(option, words, &files);
        fprintf(out, "        --%s", option->name);
        if (option->letter != 0)
            fprintf(out, "|-%c", option->letter);
        fprintf(out, ") words='%s' files=%s ;;\n", words, files ? "yes" : "no");
    }
    operand_words_of(command, words, &files);
    fprintf(out, "        *) words='%s' files=%s; [[ $now == -* ]] && words=$options files=no ;;\n",
            words, files ? "yes" : "no");
    fprintf(out, "        esac ;;\n");
}

static void print_bash(const struct tutti_command *const *commands, size_t count, FILE *out)
{
    fputs("# bash completion of tutti: source it, or lie it in share/bash-completion/completions.\n"
          "_tutti()\n"
          "{\n"
          "    local now=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
          "    local words= files=no options=\n"
          "    COMPREPLY=()\n"
          "    case \"${COMP_WORDS[1]} ${COMP_WORDS[2]}\" in\n",
          out);
    for (size_t i = 0; i < count; i++)
        bash_command(commands[i], out);
    fputs("    esac\n", out);
    fputs("    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        files=no words='help --version --help",
          out);
    for (size_t i = 0; i < count; i++) {
        char first[64];
        char second[64];

        split(commands[i]->name, first, second);
        if (i == 0 || strncmp(commands[i - 1]->name, first, strlen(first)) != 0)
            fprintf(out, " %s", first);
    }
    fputs("'\n    elif [ \"$COMP_CWORD\" -eq 2 ]; then\n        case ${COMP_WORDS[1]} in\n", out);
    for (size_t i = 0; i < count; i++) {
        char first[64];
        char second[64];

        split(commands[i]->name, first, second);
        if (second[0] != '\0')
            fprintf(out, "        %s) files=no words=\"$words %s\" ;;&\n", first, second);
    }
    fputs("        esac\n"
          "    fi\n"
          "    COMPREPLY=($(compgen -W \"$words\" -- \"$now\"))\n"
          "    [ $files = no ] || COMPREPLY+=($(compgen -f -- \"$now\"))\n"
          "}\n"
          "complete -o filenames -F _tutti tutti\n",
          out);
}

/* ---- zsh ------------------------------------------------------------------------------------- */

/* ":what:{compadd -- a b}", ":what:_files" or both, as _arguments takes them: there a colon in a
 * word begins something else. */
static void zsh_value(const char *what, const char *words, bool files, FILE *out)
{
    char plain[HELP_COLUMNS_MAX + 1];

    fprintf(out, ":%s:", brief(what, plain));
    if (words[0] == '\0') {
        fputs(files ? "_files" : " ", out);
        return;
    }
    fputs("{compadd -- ", out);
    for (; *words != '\0'; words++) {
        if (*words == ':')
            fputc('\\', out);
        fputc(*words, out);
    }
    fputs(files ? "; _files}" : "}", out);
}

static void zsh_command(const struct tutti_command *command, FILE *out)
{
    bool group = strchr(command->name, ' ') != NULL;
    int skip = group ? 2 : 1;
    char words[WORDS_BYTES];
    char plain[HELP_COLUMNS_MAX + 1];
    bool files;

    fprintf(out, "    '%s%s)\n", command->name, group ? "'" : " '*");
    fprintf(out, "        shift %d words; (( CURRENT -= %d ))\n        _arguments", skip, skip);
    fprintf(out, " \\\n            '(-h --help)'{-h,--help}'[%s]'",
            brief(tutti_help_option.help, plain));
    for (size_t i = 0; i < command->option_count; i++) {
        const struct tutti_option *option = &command->options[i];
        bool flag = option->type == TUTTI_OPTION_FLAG;

        if (option->letter != 0)
            fprintf(out, " \\\n            '(-%c --%s)'{-%c,--%s}'[%s]", option->letter,
                    option->name, option->letter, option->name, brief(option->help, plain));
        else
            fprintf(out, " \\\n            '--%s[%s]", option->name, brief(option->help, plain));
        words_of(option, words, &files);
        if (!flag)
            zsh_value(option->value, words, files, out);
        fputc('\'', out);
    }
    operand_words_of(command, words, &files);
    if (command->operands[0] != '\0') {
        fprintf(out, " \\\n            '*");
        zsh_value(command->operands, words, files, out);
        fputc('\'', out);
    }
    fprintf(out, " ;;\n");
}

static void print_zsh(const struct tutti_command *const *commands, size_t count, FILE *out)
{
    fputs("#compdef tutti\n"
          "# zsh completion of tutti: lie it as _tutti in a folder of $fpath.\n"
          "_tutti()\n"
          "{\n"
          "    if (( CURRENT == 2 )); then\n"
          "        compadd -- help --version --help",
          out);
    for (size_t i = 0; i < count; i++) {
        char first[64];
        char second[64];

        split(commands[i]->name, first, second);
        if (i == 0 || strncmp(commands[i - 1]->name, first, strlen(first)) != 0)
            fprintf(out, " %s", first);
    }
    fputs("\n        return\n    fi\n    if (( CURRENT == 3 )); then\n        case $words[2] in\n",
          out);
    for (size_t i = 0; i < count; i++) {
        char first[64];
        char second[64];

        split(commands[i]->name, first, second);
        if (second[0] == '\0')
            continue;
        if (i == 0 || strncmp(commands[i - 1]->name, first, strlen(first)) != 0)
            fprintf(out, "        %s) compadd --", first);
        fprintf(out, " %s", second);
        if (i + 1 == count || strncmp(commands[i + 1]->name, first, strlen(first)) != 0)
            fprintf(out, "; return ;;\n");
    }
    fputs("        esac\n    fi\n    case \"$words[2] $words[3]\" in\n", out);
    for (size_t i = 0; i < count; i++)
        zsh_command(commands[i], out);
    fputs("    esac\n}\n_tutti \"$@\"\n", out);
}

/* ---- fish ------------------------------------------------------------------------------------ */

/* When a line of completions holds: behind this command. */
static void fish_when(const struct tutti_command *command, FILE *out)
{
    char first[64];
    char second[64];

    split(command->name, first, second);
    fprintf(out, "complete -c tutti -n '__fish_seen_subcommand_from %s", first);
    if (second[0] != '\0')
        fprintf(out, "; and __fish_seen_subcommand_from %s", second);
    fputc('\'', out);
}

static void fish_value(const char *words, bool files, FILE *out)
{
    if (words[0] != '\0')
        fprintf(out, " -%sa '%s'", files ? "r" : "x", words);
    else
        fputs(files ? " -rF" : " -x", out);
}

static void fish_command(const struct tutti_command *command, FILE *out)
{
    char words[WORDS_BYTES];
    char plain[HELP_COLUMNS_MAX + 1];
    char first[64];
    char second[64];
    bool files;

    split(command->name, first, second);
    if (second[0] == '\0')
        fprintf(out, "complete -c tutti -n __fish_use_subcommand -fa %s -d '%s'\n", first,
                brief(command->summary, plain));
    else
        fprintf(out,
                "complete -c tutti -n __fish_use_subcommand -fa %s\n"
                "complete -c tutti -n '__fish_seen_subcommand_from %s' -fa %s -d '%s'\n",
                first, first, second, brief(command->summary, plain));
    for (size_t i = 0; i < command->option_count; i++) {
        const struct tutti_option *option = &command->options[i];

        fish_when(command, out);
        if (option->letter != 0)
            fprintf(out, " -s %c", option->letter);
        fprintf(out, " -l %s", option->name);
        words_of(option, words, &files);
        if (option->type != TUTTI_OPTION_FLAG)
            fish_value(words, files, out);
        fprintf(out, " -d '%s'\n", brief(option->help, plain));
    }
    operand_words_of(command, words, &files);
    if (words[0] != '\0') {
        fish_when(command, out);
        fprintf(out, " -a '%s'\n", words);
    }
}

static void print_fish(const struct tutti_command *const *commands, size_t count, FILE *out)
{
    fputs("# fish completion of tutti: lie it as tutti.fish in a folder of $fish_complete_path.\n"
          "complete -c tutti -n __fish_use_subcommand -fa help\n"
          "complete -c tutti -s h -l help\n",
          out);
    for (size_t i = 0; i < count; i++)
        fish_command(commands[i], out);
}

/* ---- the command ----------------------------------------------------------------------------- */

int tutti_command_completion(const struct tutti_args *args, struct tutti_sink *sink,
                             struct tutti_err *err)
{
    static void (*const prints[SHELL_COUNT])(const struct tutti_command *const *, size_t,
                                             FILE *) = {print_bash, print_zsh, print_fish};
    const char *shell = tutti_args_operand(args, 0);
    static const char words[] = "bash, zsh or fish";
    char hint[TUTTI_HINT_BYTES];
    size_t count = 0;
    const struct tutti_command *const *commands = tutti_commands(&count);

    for (size_t i = 0; i < SHELL_COUNT; i++) {
        if (strcmp(shell, shells[i]) != 0)
            continue;
        prints[i](commands, count, sink->out);
        return 0;
    }
    return tutti_fail(err, TUTTI_EINVAL, "unknown shell '%s' (%s%s)", shell,
                      tutti_nearest_hint(shell, words, hint), words);
}

const struct tutti_command tutti_cli_completion = {
    .name = "completion",
    .summary = "print what completes command lines in bash, zsh or fish",
    .operands = "bash|zsh|fish",
    .operand_min = 1,
    .operand_max = 1,
    .text = "Commands, options and what they take: presets, collectives, algorithms, types, files. "
            "Made from the tables that --help prints, so it is never behind them. An installed "
            "tutti has the three files where the shells look for them.",
    .examples = "eval \"$(tutti completion bash)\"\n"
                "tutti completion zsh >~/.zfunc/_tutti\n"
                "tutti completion fish >~/.config/fish/completions/tutti.fish",
    .run = tutti_command_completion,
};
