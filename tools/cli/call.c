/* Finds the command, parses its options, runs it, and makes an exit code of how it ended; see
 * program.h. */
#include "tools/cli/program.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "build.h"
#include "tools/options.h"
#include "tools/sweep/job.h"

/* The words of a call, where they go, and where the message of its failure goes besides. */
struct call {
    const struct tutti_cli_program *program;
    int argc;
    char **argv;
    struct tutti_sink *sink;
    struct tutti_err *err;
};

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

static const struct tutti_command *find(const struct call *call, int *ret_words)
{
    const struct tutti_cli_program *program = call->program;

    for (size_t i = 0; i < program->command_count; i++) {
        assert(strcmp(tutti_command_program(program->commands[i]), program->name) == 0);
        *ret_words = words_of(program->commands[i], call->argc, call->argv);
        if (*ret_words > 0)
            return program->commands[i];
    }
    return NULL;
}

/* The second words of a group ("topo": "list|show|..."); "" if `group` is none. */
static void group_words(const struct tutti_cli_program *program, const char *group, char *buf,
                        size_t buf_bytes)
{
    size_t bytes = strlen(group);
    size_t used = 0;

    buf[0] = '\0';
    for (size_t i = 0; i < program->command_count && used < buf_bytes; i++) {
        const char *name = program->commands[i]->name;

        if (strncmp(name, group, bytes) == 0 && name[bytes] == ' ')
            used += (size_t)snprintf(buf + used, buf_bytes - used, "%s%s", used > 0 ? "|" : "",
                                     name + bytes + 1);
    }
}

/* The commands of a group, "topo list" and so on: what `tutti topo --help` prints. */
static bool group_help(const struct tutti_cli_program *program, const char *group, FILE *out)
{
    size_t bytes = strlen(group);
    bool found = false;

    for (size_t i = 0; i < program->command_count; i++) {
        const struct tutti_command *command = program->commands[i];

        if (strncmp(command->name, group, bytes) != 0 || command->name[bytes] != ' ')
            continue;
        if (!found)
            fprintf(out, "usage: %s %s COMMAND [options]\n\ncommands:\n", program->name, group);
        found = true;
        fprintf(out, "  %-18s %s\n", command->name, command->summary);
    }
    if (found)
        fprintf(out, "\n'%s help %s COMMAND' prints the help of one.\n", program->name, group);
    return found;
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* One line, whatever the words of the user or of a file contain; written at once, since other
 * processes may be saying theirs to the same terminal. */
static void report_in(const struct call *call, const char *colour, const char *name,
                      const char *text)
{
    FILE *out = call->sink->errors != NULL ? call->sink->errors : call->sink->notes;
    char line[TUTTI_ERR_TEXT_BYTES + 1];
    size_t bytes = 0;

    if (call->err != NULL && call->err->text != text)
        (void)snprintf(call->err->text, sizeof(call->err->text), "%s", text);
    for (; *text != '\0' && bytes + 1 < sizeof(line); text++)
        line[bytes++] = (unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text;
    line[bytes] = '\0';
    fprintf(out, "%s%s%s%s: %s%s\n", colour, call->program->name, name[0] != '\0' ? " " : "", name,
            line, colour[0] != '\0' ? "\033[0m" : "");
    if (out == call->sink->errors)
        (void)fflush(out);
}

static void report(const struct call *call, const char *name, const char *text)
{
    report_in(call, "", name, text);
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

static int refuse(const struct call *call, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int refuse(const struct call *call, const char *name, const char *format, ...)
{
    char text[TUTTI_ERR_TEXT_BYTES];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    report(call, name, text);
    return exit_code(-TUTTI_EINVAL);
}

static int refuse_second(const struct call *call, const char *group, const char *words)
{
    char hint[TUTTI_HINT_BYTES];

    if (call->argc < 2)
        return refuse(call, group, "a second word is missing (%s)", words);
    return refuse(call, group, "unknown command '%s' (%s%s)", call->argv[1],
                  tutti_nearest_hint(call->argv[1], words, hint), words);
}

static int refuse_command(const struct call *call)
{
    const struct tutti_cli_program *program = call->program;
    const char *word = call->argv[0];
    char words[512];
    char near[64];
    const char *best;
    size_t used = 0;

    group_words(program, word, words, sizeof(words));
    if (words[0] != '\0')
        return refuse_second(call, word, words);
    for (size_t i = 0; i < program->command_count && used < sizeof(words); i++) {
        const char *name = program->commands[i]->name;

        used += (size_t)snprintf(words + used, sizeof(words) - used, "|%.*s",
                                 (int)strcspn(name, " "), name);
    }
    best = tutti_nearest(word, words + 1, near, sizeof(near));
    if (best != NULL)
        return refuse(call, "", "unknown command '%s' (did you mean '%s'?)", word, best);
    return refuse(call, "", "unknown %s '%s' (%s)", word[0] == '-' ? "option" : "command", word,
                  program->hint);
}

/* What was printed may not have been written: a full disk, a closed pipe. Whoever noticed before
 * (`told`) has a line of its own for that. */
static int flush(const struct call *call, const char *name, int code, bool told)
{
    char text[128];

    if (fflush(call->sink->out) == 0 && !ferror(call->sink->out))
        return code;
    if (told)
        return 1;
    (void)snprintf(text, sizeof(text), "cannot write the output: %s",
                   errno != 0 ? strerror(errno) : "write error");
    report(call, name, text);
    return 1;
}

static bool has_option(const struct tutti_command *command, const char *name)
{
    for (size_t i = 0; i < command->option_count; i++) {
        if (strcmp(command->options[i].name, name) == 0)
            return true;
    }
    return false;
}

/* On what is a terminal or not. */
static bool wants_colour(const struct tutti_args *args, bool is_terminal)
{
    const char *no = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");

    if (has_option(args->command, "colour") && !tutti_args_is(args, "colour", "auto"))
        return tutti_args_is(args, "colour", "always");
    return is_terminal && (no == NULL || no[0] == '\0') && terminal != NULL &&
           strcmp(terminal, "dumb") != 0;
}

/* The sink as -v, -q and --colour want it, as long as the command runs. */
static int run_on_page(const struct tutti_args *args, struct tutti_sink *sink,
                       struct tutti_err *err)
{
    const struct tutti_sink before = *sink;
    int status;

    if (has_option(args->command, "quiet")) {
        sink->verbose = sink->verbose || tutti_args_flag(args, "verbose");
        sink->quiet = sink->quiet || tutti_args_flag(args, "quiet");
        sink->colour = wants_colour(args, sink->out_terminal);
        if (tutti_args_flag(args, "verbose") && tutti_args_flag(args, "quiet"))
            status = tutti_fail(err, TUTTI_EINVAL,
                                "options '-v' and '-q' contradict each other (one of them)");
        else
            status = args->command->run(args, sink, err);
    } else {
        status = args->command->run(args, sink, err);
    }
    sink->verbose = before.verbose;
    sink->quiet = before.quiet;
    sink->colour = before.colour;
    return status;
}

static int run_in_job(const struct tutti_command *command, const struct call *call,
                      const struct tutti_job *job)
{
    struct tutti_args args;
    struct tutti_err err = {.text = ""};
    int status = tutti_args_parse(command, call->argc, call->argv, &args, &err);
    const char *colour = "";
    int code;

    args.job = job;
    status = tutti_job_agree(job, status, &err);
    if (status == 0 && !args.help)
        status = run_on_page(&args, call->sink, &err);
    else if (status == 0 && job->index == 0)
        tutti_help_print(command, call->sink->out);
    if (status == -TUTTI_ECHECK && wants_colour(&args, call->sink->notes_terminal))
        colour = "\033[31m"; /* a result is wrong, not a word of the command line */
    if (status == 0 || args.words != NULL)
        tutti_args_done(&args);
    code = status == 0 ? call->sink->exit_code : exit_code(status);
    code = flush(call, command->name, code, status < 0);
    if (status < 0 && job->index == 0 && err.text[0] != '\0') /* else it has been said */
        report_in(call, colour, command->name, err.text);
    return code;
}

static int run(const struct tutti_command *command, const struct call *call)
{
    struct tutti_job job = {.count = 1};
    struct tutti_err err = {.text = ""};
    int status = command->spreads ? tutti_job_join(&job, &err) : 0;
    int code;

    if (status == 0) {
        code = run_in_job(command, call, &job);
        tutti_job_leave(&job);
        return code;
    }
    /* The first says why, and its code is that of all. The others, of whom it knows nothing, end
     * well: a launcher ends all others when one fails, perhaps before the first could speak. */
    if (job.index > 0)
        return 0;
    report(call, command->name, err.text);
    return exit_code(status);
}

static int refuse_word(const struct call *call, const char *command, const char *word)
{
    return refuse(call, command, "unexpected word '%s' (nothing more)", word);
}

/* help --man-pages DIR: all of them as files. */
static int write_pages(const struct call *call)
{
    struct tutti_err err = {.text = ""};
    int status;

    if (call->argc != 1)
        return refuse(call, "help", "option '--man-pages' needs one directory (DIR)");
    status = tutti_man_write(call->argv[0], call->sink, &err);
    if (status < 0)
        report(call, "help", err.text);
    return exit_code(status);
}

/* A call with the words that are left. */
static struct call behind(const struct call *call, int words)
{
    struct call rest = *call;

    rest.argc -= words;
    rest.argv += words;
    return rest;
}

/* help [--man] [COMMAND] */
static int help(const struct call *all)
{
    bool pages = all->program->has_man_pages;
    bool man = pages && all->argc > 0 && strcmp(all->argv[0], "--man") == 0;
    struct call call = behind(all, man);
    FILE *out = call.sink->out;
    const struct tutti_command *command;
    int words = 0;

    if (pages && all->argc > 0 && strcmp(all->argv[0], "--man-pages") == 0) {
        call = behind(all, 1);
        return write_pages(&call);
    }
    if (call.argc == 0) {
        if (man)
            tutti_man_print_all(out);
        else
            tutti_cli_program_usage(call.program, out);
        return flush(&call, "help", 0, false);
    }
    command = find(&call, &words);
    if (command == NULL && call.argc == 1 && !man && group_help(call.program, call.argv[0], out))
        return flush(&call, "help", 0, false);
    if (command == NULL)
        return refuse_command(&call);
    if (words < call.argc)
        return refuse_word(&call, "help", call.argv[words]);
    if (man)
        tutti_man_print(command, out);
    else
        tutti_help_print(command, out);
    return flush(&call, "help", 0, false);
}

static int version(const struct call *call)
{
    if (call->argc > 1)
        return refuse_word(call, "--version", call->argv[1]);
    fprintf(call->sink->out, "%s %s\n", call->program->name, TUTTI_BUILD_VERSION);
    return flush(call, "", 0, false);
}

int tutti_cli_program_call(const struct tutti_cli_program *program, int argc, char **argv,
                           struct tutti_sink *sink, struct tutti_err *err)
{
    struct call call = {.program = program, .argc = argc, .argv = argv, .sink = sink, .err = err};
    const struct tutti_command *command;
    int words = 0;

    if (err != NULL)
        err->text[0] = '\0';
    if (argc < 1) {
        tutti_cli_program_usage(program, sink->notes);
        return 2;
    }
    if (strcmp(argv[0], "--version") == 0)
        return version(&call);
    if (is_help(argv[0])) {
        call.argc = 0;
        return help(&call);
    }
    if (strcmp(argv[0], "help") == 0) {
        call = behind(&call, 1);
        return help(&call);
    }
    command = find(&call, &words);
    if (command == NULL && argc > 1 && is_help(argv[1]) && group_help(program, argv[0], sink->out))
        return flush(&call, argv[0], 0, false);
    if (command == NULL)
        return refuse_command(&call);
    call = behind(&call, words);
    return run(command, &call);
}
