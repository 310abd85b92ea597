/* Reads, checks and completes the arguments of `tutti train`; see words.h. */
#include "tools/launch/words.h"

#include <inttypes.h>
#include <string.h>

#include "runtime/backend.h"
#include "runtime/strategy.h"
#include "tools/commands.h"

static bool has(const struct tutti_args *train, const char *name)
{
    for (size_t i = 0; i < train->command->option_count; i++)
        if (strcmp(train->command->options[i].name, name) == 0)
            return train->values[i].given;
    return false;
}

/* A manifest or a batch script is text that other machines read. */
static int check_text(const char *word, struct tutti_err *err)
{
    for (const char *p = word; *p != '\0'; p++)
        if ((unsigned char)*p < ' ' || (unsigned char)*p > '~')
            return tutti_fail(err, TUTTI_EINVAL,
                              "train: '%.60s' has a character of code '%u' (printable ASCII)", word,
                              (unsigned)(unsigned char)*p);
    return 0;
}

/* Who starts the processes is decided here. */
static int check_own(const struct tutti_args *train, struct tutti_err *err)
{
    static const char *const own[] = {"launch",     "hosts",    "dry-run", "join",
                                      "rendezvous", "launcher", "cluster"};

    if (train->help)
        return tutti_fail(err, TUTTI_EINVAL,
                          "train: '--help' trains nothing ('tutti train --help' alone)");
    if (tutti_args_operand(train, 0) != NULL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "train: '%s' is a machine to simulate, and this trains (options alone)",
                          tutti_args_operand(train, 0));
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (has(train, own[i]))
            return tutti_fail(err, TUTTI_EINVAL,
                              "train: option '--%s' says who starts the processes, which is "
                              "settled here (none of these)",
                              own[i]);
    if (!has(train, "model"))
        return tutti_fail(
            err, TUTTI_EINVAL,
            "train: no model ('-- --model NAME': behind '--' stand options of 'tutti train')");
    return 0;
}

static int check_restarts(const struct tutti_args *train, const struct tutti_train_words_ask *ask,
                          struct tutti_err *err)
{
    if (ask->restarts != NULL || !has(train, "restarts"))
        return 0;
    return tutti_fail(err, TUTTI_EINVAL,
                      "train: option '--restarts': nobody starts a single task again here (the "
                      "job as a whole: before '--')");
}

static int check_backend(const struct tutti_args *train, struct tutti_err *err)
{
    const struct tutti_backend_kind *kind;

    if (!has(train, "backend"))
        return 0;
    kind = tutti_backend_kind_find(tutti_args_text(train, "backend"));
    if (kind == NULL || !kind->launched)
        return tutti_fail(err, TUTTI_EINVAL,
                          "train: option '-B': '%s' does not bring processes together (tcp)",
                          tutti_args_text(train, "backend"));
    return 0;
}

static int check_strategy(const struct tutti_args *train, const struct tutti_tasks_started *tasks,
                          struct tutti_err *err)
{
    const uint32_t servers = tutti_tasks_started_of(tasks, "ps")->count;
    struct tutti_strategy strategy;
    int status;

    if (!has(train, "strategy"))
        return 0;
    status = tutti_strategy_named(tutti_args_text(train, "strategy"), &strategy, err);
    if (status < 0)
        return tutti_wrap(err, status, "train: option '--strategy'");
    if (strategy.coordinated && servers == 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "train: strategy '%s' without a server ('--ps N' before '--')",
                          strategy.name);
    if (!strategy.coordinated && servers > 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--ps': strategy '%s' has no servers (parameter-server)",
                          strategy.name);
    return 0;
}

/* Codes that say something else already. */
static int check_saving(const struct tutti_args *train, const struct tutti_tasks_started *tasks,
                        struct tutti_err *err)
{
    const uint64_t code = tutti_args_number(train, "stop-code");

    if (code <= 2 || code == 77)
        return tutti_fail(err, TUTTI_EINVAL,
                          "train: option '--stop-code': '%" PRIu64 "' is what failures end with "
                          "(3 to 255, not 77)",
                          code);
    if (tutti_tasks_started_of(tasks, "evaluator")->count > 0 && !has(train, "checkpoint"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--evaluator' without train's '--checkpoint FOLDER', which is "
                          "what it looks at");
    return 0;
}

static void add(struct tutti_train_words *words, const char *word)
{
    words->words[words->count++] = word;
}

static void add_option(struct tutti_train_words *words, const struct tutti_args *train,
                       const char *name, const char *typed, const char *value)
{
    if (value == NULL || has(train, name))
        return;
    add(words, typed);
    add(words, value);
}

static void fill(const struct tutti_args *args, const struct tutti_args *train,
                 const struct tutti_train_words_ask *ask, struct tutti_train_words *ret)
{
    const bool serves = tutti_tasks_started_of(ask->tasks, "ps")->count > 0;
    const bool by_tcp = !has(train, "backend") || tutti_args_is(train, "backend", "tcp");
    const char *word;

    *ret =
        (struct tutti_train_words){.saves = has(train, "checkpoint"), .open = has(train, "open")};
    ret->stop_code = (uint32_t)tutti_args_number(train, "stop-code");
    add_option(ret, train, "backend", "-B", "tcp");
    for (uint32_t i = 0; (word = tutti_args_operand(args, i)) != NULL; i++)
        add(ret, word);
    add_option(ret, train, "strategy", "--strategy", serves ? "parameter-server" : NULL);
    add_option(ret, train, "launcher", "--launcher", ask->launcher);
    add_option(ret, train, "deadline", "--deadline", ask->deadline);
    if (by_tcp && ask->tasks->count > 1 && ask->restarts != NULL && strcmp(ask->restarts, "0") != 0)
        add_option(ret, train, "restarts", "--restarts", ask->restarts);
    if (ret->saves)
        add_option(ret, train, "stop-code", "--stop-code", ask->stop_code);
}

int tutti_train_words_read(const struct tutti_args *args, const struct tutti_train_words_ask *ask,
                           struct tutti_train_words *ret, struct tutti_err *err)
{
    char *words[TUTTI_TRAIN_WORDS_MAX];
    struct tutti_args train;
    int count = 0;
    int status = 0;

    for (; status == 0 && tutti_args_operand(args, (uint32_t)count) != NULL; count++) {
        if (count == TUTTI_TRAIN_WORDS_MAX - TUTTI_TRAIN_WORDS_ADDED_MAX)
            return tutti_fail(err, TUTTI_EINVAL, "train: more than '%d' words (fewer)", count);
        words[count] = (char *)tutti_args_operand(args, (uint32_t)count); /* as main has them */
        status = check_text(words[count], err);
    }
    if (status < 0)
        return status;
    status = tutti_args_parse(&tutti_cli_train, count, words, &train, err);
    if (status < 0)
        return tutti_wrap(err, status, "train");
    status = check_own(&train, err);
    if (status == 0)
        status = check_restarts(&train, ask, err);
    if (status == 0)
        status = check_backend(&train, err);
    if (status == 0)
        status = check_strategy(&train, ask->tasks, err);
    if (status == 0)
        status = check_saving(&train, ask->tasks, err);
    if (status == 0)
        fill(args, &train, ask, ret);
    tutti_args_done(&train);
    return status;
}
