/* The command `tutti`: finds the command, parses its options, runs it, exits with its code. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "build.h"
#include "tools/commands.h"
#include "tools/job.h"
#include "tools/options.h"

/* clang-format off */
static const struct tutti_command *const commands[] = {
    &tutti_command_topo_list,
    &tutti_command_topo_show,
    &tutti_command_topo_bound,
    &tutti_command_topo_convert,
    &tutti_command_explain,
    &tutti_command_predict,
    &tutti_command_compare,
    &tutti_command_run,
    &tutti_command_validate,
    &tutti_command_calibrate,
    &tutti_command_schedule_show,
    &tutti_command_schedule_check,
    &tutti_command_schedule_prove,
    &tutti_command_schedule_convert,
    &tutti_command_doctor,
};
/* clang-format on */

enum { COMMAND_COUNT = sizeof(commands) / sizeof(commands[0]) };

const struct tutti_command *const *tutti_commands(size_t *ret_count)
{
    *ret_count = COMMAND_COUNT;
    return commands;
}

/* How many of the words `argv` name this command: 0 if they do not. */
static int words_of(const struct tutti_command *command, int argc, char **argv)
{
    const char *name = command->name;
    int words = 0;

    while (*name != '\0') {
        size_t bytes = strcspn(name, " ");

        if (words >= argc || strlen(argv[words]) != bytes || memcmp(argv[words], name, bytes) != 0)
            return 0;
        words++;
        name += bytes + (name[bytes] == ' ');
    }
    return words;
}

static const struct tutti_command *find(int argc, char **argv, int *ret_words)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        *ret_words = words_of(commands[i], argc, argv);
        if (*ret_words > 0)
            return commands[i];
    }
    return NULL;
}

/* The second words of a group ("topo": "list|show|..."); "" if `group` is none. */
static void group_words(const char *group, char *buf, size_t buf_bytes)
{
    size_t bytes = strlen(group);
    size_t used = 0;

    buf[0] = '\0';
    for (size_t i = 0; i < COMMAND_COUNT && used < buf_bytes; i++) {
        const char *name = commands[i]->name;

        if (strncmp(name, group, bytes) == 0 && name[bytes] == ' ')
            used += (size_t)snprintf(buf + used, buf_bytes - used, "%s%s", used > 0 ? "|" : "",
                                     name + bytes + 1);
    }
}

/* The commands of a group, "topo list" and so on: what `tutti topo --help` prints. */
static bool group_help(const char *group)
{
    size_t bytes = strlen(group);
    bool found = false;

    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strncmp(commands[i]->name, group, bytes) != 0 || commands[i]->name[bytes] != ' ')
            continue;
        if (!found)
            printf("usage: tutti %s COMMAND [options]\n\ncommands:\n", group);
        found = true;
        printf("  %-18s %s\n", commands[i]->name, commands[i]->summary);
    }
    if (found)
        printf("\n'tutti help %s COMMAND' prints the help of one.\n", group);
    return found;
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static int refuse_command(int argc, char **argv)
{
    char words[512];
    char near[64];
    const char *best;
    size_t used = 0;

    group_words(argv[0], words, sizeof(words));
    if (words[0] != '\0' && argc < 2) {
        fprintf(stderr, "tutti %s: a second word is missing (%s)\n", argv[0], words);
        return 2;
    }
    if (words[0] != '\0') {
        best = tutti_nearest(argv[1], words, near, sizeof(near));
        fprintf(stderr, "tutti %s: unknown command '%s' (%s%s%s)\n", argv[0], argv[1],
                best != NULL ? "did you mean '" : "", best != NULL ? best : words,
                best != NULL ? "'?" : "");
        return 2;
    }
    for (size_t i = 0; i < COMMAND_COUNT && used < sizeof(words); i++)
        used += (size_t)snprintf(words + used, sizeof(words) - used, "|%.*s",
                                 (int)strcspn(commands[i]->name, " "), commands[i]->name);
    best = tutti_nearest(argv[0], words + 1, near, sizeof(near));
    if (best != NULL)
        fprintf(stderr, "tutti: unknown command '%s' (did you mean '%s'?)\n", argv[0], best);
    else
        fprintf(stderr, "tutti: unknown %s '%s' ('tutti help' lists them)\n",
                argv[0][0] == '-' ? "option" : "command", argv[0]);
    return 2;
}

static int exit_code(int status)
{
    switch (-status) {
    case 0:
        return 0;
    case TUTTI_EINVAL:
        return 2;
    case TUTTI_ELACK:
        return 77;
    default:
        return 1;
    }
}

/* What was printed may not have been written: a full disk, a closed pipe. Whoever noticed before
 * (`told`) has a line of its own for that. */
static int flush(const char *name, int code, bool told)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    if (told)
        return 1;
    fprintf(stderr, "tutti%s%s: cannot write the output: %s\n", name[0] != '\0' ? " " : "", name,
            errno != 0 ? strerror(errno) : "write error");
    return 1;
}

/* One line, whatever the words of the user or of a file contain; written at once, since other
 * processes may be saying theirs to the same terminal. */
static void report(const char *name, const char *text)
{
    char line[TUTTI_ERR_TEXT_BYTES + 1];
    size_t bytes = 0;

    for (; *text != '\0' && bytes + 1 < sizeof(line); text++)
        line[bytes++] = (unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text;
    line[bytes] = '\0';
    fprintf(stderr, "tutti %s: %s\n", name, line);
}

static int run_in_job(const struct tutti_command *command, int argc, char **argv,
                      const struct tutti_job *job)
{
    struct tutti_args args;
    struct tutti_err err = {.text = ""};
    int status = tutti_args_parse(command, argc, argv, &args, &err);
    int code;

    args.job = job;
    status = tutti_job_agree(job, status, &err);
    if (status == 0 && !args.help)
        status = command->run(&args, &err);
    else if (status == 0 && job->index == 0)
        tutti_help_print(command, stdout);
    if (status == 0 || args.words != NULL)
        tutti_args_done(&args);
    code = flush(command->name, exit_code(status), status < 0);
    if (status < 0 && job->index == 0 && err.text[0] != '\0') /* else it has been said */
        report(command->name, err.text);
    return code;
}

static int run(const struct tutti_command *command, int argc, char **argv)
{
    struct tutti_job job = {.count = 1};
    struct tutti_err err = {.text = ""};
    int status = command->spreads ? tutti_job_join(&job, &err) : 0;
    int code;

    if (status == 0) {
        code = run_in_job(command, argc, argv, &job);
        tutti_job_leave(&job);
        return code;
    }
    /* The first says why, and its code is that of all. The others, of whom it knows nothing, end
     * well: a launcher ends all others when one fails, perhaps before the first could speak. */
    if (job.index > 0)
        return 0;
    report(command->name, err.text);
    return exit_code(status);
}

static int refuse_word(const char *command, const char *word)
{
    struct tutti_err err = {.text = ""};
    int status = tutti_fail(&err, TUTTI_EINVAL, "unexpected word '%s' (nothing more)", word);

    report(command, err.text);
    return exit_code(status);
}

/* help --man-pages DIR: all of them as files. */
static int write_pages(int argc, char **argv)
{
    struct tutti_err err = {.text = ""};
    int status;

    if (argc != 1)
        status = tutti_fail(&err, TUTTI_EINVAL, "option '--man-pages' needs one directory (DIR)");
    else
        status = tutti_man_write(argv[0], &err);
    if (status < 0)
        report("help", err.text);
    return exit_code(status);
}

/* help [--man] [COMMAND] */
static int help(int argc, char **argv)
{
    if (argc > 0 && strcmp(argv[0], "--man-pages") == 0)
        return write_pages(argc - 1, argv + 1);

    bool man = argc > 0 && strcmp(argv[0], "--man") == 0;
    const struct tutti_command *command;
    int words = 0;

    argc -= man;
    argv += man;
    if (argc == 0) {
        if (man)
            tutti_man_print_all(stdout);
        else
            tutti_usage_print(stdout);
        return flush("help", 0, false);
    }
    command = find(argc, argv, &words);
    if (command == NULL && argc == 1 && !man && group_help(argv[0]))
        return flush("help", 0, false);
    if (command == NULL)
        return refuse_command(argc, argv);
    if (words < argc)
        return refuse_word("help", argv[words]);
    if (man)
        tutti_man_print(command, stdout);
    else
        tutti_help_print(command, stdout);
    return flush("help", 0, false);
}

int main(int argc, char **argv)
{
    const struct tutti_command *command;
    int words = 0;

    /* A reader that went away is an error of writing like any other, said and counted as one. */
    (void)signal(SIGPIPE, SIG_IGN);
    if (argc < 2) {
        tutti_usage_print(stderr);
        return 2;
    }
    argc--;
    argv++;
    if (strcmp(argv[0], "--version") == 0 && argc > 1)
        return refuse_word("--version", argv[1]);
    if (strcmp(argv[0], "--version") == 0) {
        printf("tutti %s\n", TUTTI_BUILD_VERSION);
        return flush("", 0, false);
    }
    if (strcmp(argv[0], "help") == 0)
        return help(argc - 1, argv + 1);
    if (is_help(argv[0]))
        return help(0, argv);
    command = find(argc, argv, &words);
    if (command == NULL && argc > 1 && is_help(argv[1]) && group_help(argv[0]))
        return flush(argv[0], 0, false);
    if (command == NULL)
        return refuse_command(argc, argv);
    return run(command, argc - words, argv + words);
}
