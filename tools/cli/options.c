/* The parser of option tables: every command line goes through here. */
#include "tools/options.h"

#include "tools/sweep/job.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Long names are typed with dashes; nccl-tests uses underscores, so both are taken. */
static bool same_name(const char *typed, size_t typed_bytes, const char *name)
{
    if (strlen(name) != typed_bytes)
        return false;
    for (size_t i = 0; i < typed_bytes; i++) {
        char c = typed[i] == '_' ? '-' : typed[i];

        if (c != name[i])
            return false;
    }
    return true;
}

static uint32_t find_long(const struct tutti_command *command, const char *typed, size_t bytes)
{
    for (uint32_t i = 0; i < command->option_count; i++) {
        if (same_name(typed, bytes, command->options[i].name))
            return i;
    }
    return UINT32_MAX;
}

static uint32_t find_letter(const struct tutti_command *command, char letter)
{
    for (uint32_t i = 0; i < command->option_count; i++) {
        if (command->options[i].letter == letter)
            return i;
    }
    return UINT32_MAX;
}

const char *tutti_command_program(const struct tutti_command *command)
{
    return command->program != NULL ? command->program : "tutti";
}

/* An option that another program has now. */
static const struct tutti_moved_option *find_moved(const struct tutti_command *command,
                                                   const char *typed, size_t bytes)
{
    for (size_t i = 0; i < command->moved_count; i++) {
        if (same_name(typed, bytes, command->moved[i].name))
            return &command->moved[i];
    }
    return NULL;
}

static int refuse_long(const struct tutti_command *command, const char *word, struct tutti_err *err)
{
    char names[1024] = "help";
    char near[64];
    size_t used = strlen(names);
    size_t bytes = strcspn(word, "=");
    const struct tutti_moved_option *moved = find_moved(command, word + 2, bytes - 2);
    const char *best;

    if (moved != NULL)
        return tutti_fail(err, TUTTI_EINVAL, "option '--%s': %s", moved->name, moved->where);
    for (size_t i = 0; i < command->option_count; i++) {
        int length = snprintf(names + used, sizeof(names) - used, "|%s", command->options[i].name);

        if (length < 0 || (size_t)length >= sizeof(names) - used)
            break;
        used += (size_t)length;
    }
    char typed[64];
    (void)snprintf(typed, sizeof(typed), "%.*s", (int)(bytes < 60 ? bytes : 60), word);
    best = tutti_nearest(typed + 2, names, near, sizeof(near));
    if (best != NULL)
        return tutti_fail(err, TUTTI_EINVAL, "unknown option '%s' (did you mean '--%s'?)", typed,
                          best);
    return tutti_fail(err, TUTTI_EINVAL, "unknown option '%s' ('%s %s --help' lists them)", typed,
                      tutti_command_program(command), command->name);
}

/* Is `text` one of the words of "a|b|c"? */
static bool is_choice(const char *text, const char *words)
{
    size_t bytes = strlen(text);

    for (const char *p = words; *p != '\0';) {
        size_t length = strcspn(p, "|");

        if (length == bytes && memcmp(p, text, length) == 0)
            return true;
        p += length + (p[length] == '|');
    }
    return false;
}

static int read_real(const struct tutti_option *option, const char *text, double *ret,
                     struct tutti_err *err)
{
    char *end = NULL;
    double value;

    errno = 0;
    value = strtod(text, &end);
    if (!(isdigit((unsigned char)text[*text == '-']) || *text == '.') || *end != '\0')
        return tutti_fail(err, TUTTI_EINVAL, "not a number '%s' (%" PRIu64 " to %" PRIu64 ")", text,
                          option->min, option->max);
    if (*text == '-' || errno != 0 || !isfinite(value) || value < (double)option->min ||
        value > (double)option->max)
        return tutti_fail(err, TUTTI_EINVAL, "out of range '%s' (%" PRIu64 " to %" PRIu64 ")", text,
                          option->min, option->max);
    *ret = value;
    return 0;
}

static int read_size(const struct tutti_option *option, const char *text, uint64_t *ret,
                     struct tutti_err *err)
{
    char least[TUTTI_UNIT_TEXT_BYTES];
    char most[TUTTI_UNIT_TEXT_BYTES];
    uint64_t value = 0;
    int status = tutti_read_size(text, &value, err);

    if (status < 0)
        return status;
    if (option->max != 0 && (value < option->min || value > option->max))
        return tutti_fail(err, TUTTI_EINVAL, "size '%s' is out of range (%s to %s)", text,
                          tutti_print_size(option->min, least),
                          tutti_print_size(option->max, most));
    *ret = value;
    return 0;
}

static int refuse_choice(const struct tutti_option *option, const char *text, struct tutti_err *err)
{
    char hint[TUTTI_HINT_BYTES];

    return tutti_fail(err, TUTTI_EINVAL, "unknown value '%s' (%s%s)", text,
                      tutti_nearest_hint(text, option->value, hint), option->value);
}

static int read_value(const struct tutti_option *option, const char *text,
                      struct tutti_value *value, struct tutti_err *err)
{
    tutti_ps ps = 0;
    int status = 0;

    switch (option->type) {
    case TUTTI_OPTION_SIZE:
        status = read_size(option, text, &value->number, err);
        break;
    case TUTTI_OPTION_RATE:
        status = tutti_read_rate(text, &value->number, err);
        break;
    case TUTTI_OPTION_TIME:
        status = tutti_read_time(text, &ps, err);
        if (status == 0)
            value->number = (uint64_t)ps;
        break;
    case TUTTI_OPTION_COUNT:
        status = tutti_read_count(text, option->min, option->max, &value->number, err);
        break;
    case TUTTI_OPTION_REAL:
        status = read_real(option, text, &value->real, err);
        break;
    case TUTTI_OPTION_CHOICE:
        if (!is_choice(text, option->value))
            status = refuse_choice(option, text, err);
        break;
    case TUTTI_OPTION_TEXT:
    case TUTTI_OPTION_LIST:
        if (*text == '\0')
            status = tutti_fail(err, TUTTI_EINVAL, "the value is empty (%s)", option->value);
        break;
    case TUTTI_OPTION_FLAG:
        break;
    }
    if (status == 0)
        value->text = text;
    return status;
}

static void add_word(struct tutti_args *args, const char *word, uint32_t option)
{
    args->words[args->word_count] = word;
    args->word_option[args->word_count] = option;
    args->word_count++;
}

/* A word that begins with a dash and a letter, or two dashes, is an option; "-5" is a value. */
static bool looks_like_option(const char *word)
{
    return word[0] == '-' && (word[1] == '-' || isalpha((unsigned char)word[1]));
}

/* Takes option `index`; `shown` is how it was typed ("-b"), `attached` the value in the same word
 * or NULL. Advances *at over the values it takes from the words that follow. */
static int take(struct tutti_args *args, uint32_t index, const char *shown, const char *attached,
                int argc, char **argv, int *at, struct tutti_err *err)
{
    const struct tutti_option *option = &args->command->options[index];
    struct tutti_value *value = &args->values[index];
    const char *text = attached;
    int status;

    if (value->given && option->type != TUTTI_OPTION_LIST)
        return tutti_fail(err, TUTTI_EINVAL, "option '%s' is given twice (once)", shown);
    value->given = true;
    if (option->type == TUTTI_OPTION_FLAG) {
        if (attached != NULL)
            return tutti_fail(err, TUTTI_EINVAL, "option '%s' takes no value '%s' (give it alone)",
                              shown, attached);
        return 0;
    }
    if (text == NULL && *at + 1 < argc && !looks_like_option(argv[*at + 1]))
        text = argv[++*at];
    if (text == NULL)
        return tutti_fail(err, TUTTI_EINVAL, "option '%s' needs a value (%s)", shown,
                          option->value);
    status = read_value(option, text, value, err);
    if (status < 0)
        return tutti_wrap(err, status, "option '%s'", shown);
    if (option->type != TUTTI_OPTION_LIST)
        return 0;
    add_word(args, text, index);
    while (attached == NULL && *at + 1 < argc && !looks_like_option(argv[*at + 1]))
        add_word(args, argv[++*at], index);
    return 0;
}

static int take_long(struct tutti_args *args, const char *word, int argc, char **argv, int *at,
                     struct tutti_err *err)
{
    size_t bytes = strcspn(word + 2, "=");
    const char *attached = word[2 + bytes] == '=' ? word + 2 + bytes + 1 : NULL;
    uint32_t index = find_long(args->command, word + 2, bytes);
    char shown[64];

    if (same_name(word + 2, bytes, "help")) {
        args->help = true;
        return 0;
    }
    if (index == UINT32_MAX)
        return refuse_long(args->command, word, err);
    (void)snprintf(shown, sizeof(shown), "--%s", args->command->options[index].name);
    return take(args, index, shown, attached, argc, argv, at, err);
}

/* The other case of a letter is the likeliest slip: -O is a file, -o the operator, on all commands.
 */
static int refuse_letter(const struct tutti_command *command, char letter, struct tutti_err *err)
{
    unsigned char typed = (unsigned char)letter;
    char other = (char)(islower(typed) ? toupper(typed) : tolower(typed));
    uint32_t index = find_letter(command, other);

    if (index != UINT32_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "unknown option '-%c' (did you mean '-%c, --%s'?)",
                          letter, other, command->options[index].name);
    return tutti_fail(err, TUTTI_EINVAL, "unknown option '-%c' ('%s %s --help' lists them)", letter,
                      tutti_command_program(command), command->name);
}

static int take_short(struct tutti_args *args, const char *word, int argc, char **argv, int *at,
                      struct tutti_err *err)
{
    char shown[3] = {'-', word[1], '\0'};
    uint32_t index = find_letter(args->command, word[1]);
    const char *attached = word[2] == '\0' ? NULL : word + 2;

    if (word[1] == 'h' && word[2] == '\0' && index == UINT32_MAX) {
        args->help = true;
        return 0;
    }
    if (index == UINT32_MAX)
        return refuse_letter(args->command, word[1], err);
    return take(args, index, shown, attached, argc, argv, at, err);
}

static int take_standards(struct tutti_args *args, struct tutti_err *err)
{
    for (size_t i = 0; i < args->command->option_count; i++) {
        const struct tutti_option *option = &args->command->options[i];

        if (args->values[i].given || option->standard == NULL)
            continue;
        if (read_value(option, option->standard, &args->values[i], err) < 0)
            return tutti_wrap(err, -TUTTI_EINVAL, "the standard value of '--%s'", option->name);
    }
    return 0;
}

static int check_operands(const struct tutti_args *args, struct tutti_err *err)
{
    const struct tutti_command *command = args->command;
    uint32_t count = 0;

    for (uint32_t i = 0; i < args->word_count; i++) {
        if (args->word_option[i] != UINT32_MAX)
            continue;
        if (args->words[i][0] == '\0')
            return tutti_fail(err, TUTTI_EINVAL, "an operand is empty (%s)", command->operands);
        if (++count > command->operand_max) {
            if (command->operand_max == 0)
                return tutti_fail(err, TUTTI_EINVAL, "unexpected word '%s' (it takes options only)",
                                  args->words[i]);
            return tutti_fail(err, TUTTI_EINVAL, "unexpected word '%s' (%s%s%s)", args->words[i],
                              command->operand_max == 1 ? "one " : "", command->operands,
                              strncmp(args->words[i], "NCCL_", 5) == 0 ? "; variables: --env" : "");
        }
    }
    if (count < command->operand_min)
        return tutti_fail(err, TUTTI_EINVAL, "an operand is missing (usage: %s %s %s [options])",
                          tutti_command_program(command), command->name, command->operands);
    return 0;
}

int tutti_args_parse(const struct tutti_command *command, int argc, char **argv,
                     struct tutti_args *args, struct tutti_err *err)
{
    static const struct tutti_job alone = {.count = 1};
    bool only_operands = false;
    int status = 0;

    assert(command->option_count <= TUTTI_OPTIONS_MAX);
    *args = (struct tutti_args){.command = command, .job = &alone};
    args->words = calloc((size_t)argc + 1, sizeof(*args->words));
    args->word_option = calloc((size_t)argc + 1, sizeof(*args->word_option));
    if (args->words == NULL || args->word_option == NULL)
        status = tutti_nomem(err);
    for (int at = 0; status == 0 && at < argc; at++) {
        const char *word = argv[at];

        if (only_operands || word[0] != '-' || word[1] == '\0')
            add_word(args, word, UINT32_MAX);
        else if (strcmp(word, "--") == 0)
            only_operands = true;
        else if (word[1] == '-')
            status = take_long(args, word, argc, argv, &at, err);
        else
            status = take_short(args, word, argc, argv, &at, err);
        if (args->help)
            return 0;
    }
    if (status == 0)
        status = take_standards(args, err);
    if (status == 0)
        status = check_operands(args, err);
    if (status < 0)
        tutti_args_done(args);
    return status;
}

void tutti_args_done(struct tutti_args *args)
{
    free(args->words);
    free(args->word_option);
    args->words = NULL;
    args->word_option = NULL;
    args->word_count = 0;
}

static const struct tutti_value *value_of(const struct tutti_args *args, const char *name)
{
    uint32_t index = find_long(args->command, name, strlen(name));

    assert(index != UINT32_MAX);
    return &args->values[index];
}

bool tutti_args_given(const struct tutti_args *args, const char *name)
{
    return value_of(args, name)->given;
}

bool tutti_args_flag(const struct tutti_args *args, const char *name)
{
    return value_of(args, name)->given;
}

const char *tutti_args_text(const struct tutti_args *args, const char *name)
{
    return value_of(args, name)->text;
}

bool tutti_args_is(const struct tutti_args *args, const char *name, const char *text)
{
    const char *value = value_of(args, name)->text;

    return value != NULL && strcmp(value, text) == 0;
}

uint64_t tutti_args_number(const struct tutti_args *args, const char *name)
{
    return value_of(args, name)->number;
}

double tutti_args_real(const struct tutti_args *args, const char *name)
{
    return value_of(args, name)->real;
}

static const char *word_at(const struct tutti_args *args, uint32_t option, uint32_t index)
{
    uint32_t seen = 0;

    for (uint32_t i = 0; i < args->word_count; i++) {
        if (args->word_option[i] == option && seen++ == index)
            return args->words[i];
    }
    return NULL;
}

const char *tutti_args_operand(const struct tutti_args *args, uint32_t index)
{
    return word_at(args, UINT32_MAX, index);
}

const char *tutti_args_word(const struct tutti_args *args, const char *name, uint32_t index)
{
    return word_at(args, find_long(args->command, name, strlen(name)), index);
}
