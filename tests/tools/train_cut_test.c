/* Random commands that divide a model among devices: each is refused in one line, or prints pages
 * of 100 columns at most, and parts of a step that add up to it. */
#include <math.h>

#include "runtime/random.h"
#include "tests/test.h"
#include "tools/cli.h"
#include "tools/commands.h"
#include "tools/options.h"
#include "tools/sink.h"

enum { LINE_BYTES = 512, WORDS_MAX = 48, COMMANDS = 40, COMMANDS_FULL = 1000, COLUMNS = 100 };

static struct tutti_random draws;

static const char *pick(const char *const *words, size_t count)
{
    return words[tutti_random_below(&draws, count)];
}

#define PICK(...)                            \
    pick((const char *const[]){__VA_ARGS__}, \
         sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static bool chance(double share)
{
    return tutti_random_unit(&draws) < share;
}

static void add(char line[LINE_BYTES], const char *option, const char *value)
{
    const size_t at = strlen(line);

    snprintf(line + at, LINE_BYTES - at, " %s%s%s", option, *value != '\0' ? " " : "", value);
}

static void draw_command(char line[LINE_BYTES])
{
    const char *model = PICK("llama3-8b", "gpt2", "mixtral-8x7b", "bert-large", "llama2-70b");
    const char *strategy = PICK("ddp", "zero1", "zero1", "zero2", "fsdp", "hsdp");
    const bool experts = strcmp(model, "mixtral-8x7b") == 0;
    const char *pipeline = PICK("gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zbv");

    snprintf(
        line, LINE_BYTES, "train %s",
        PICK("dgx-h100", "dgx-h100:nodes=4", "dgx-a100:nodes=8", "tpu-v4:4x4x4", "dgx-1v:nodes=2"));
    add(line, "-m", model);
    add(line, "-s", strategy);
    add(line, "--tp", PICK("1", "2", "4", "8"));
    add(line, "--pp", PICK("1", "2", "3", "4"));
    add(line, "--global-batch", PICK("96", "256", "512", "768"));
    if (chance(0.3))
        add(line, "--cp", PICK("2", "4"));
    if (experts && chance(0.7))
        add(line, "--ep", PICK("2", "4", "8"));
    if (strstr(line, "--pp 1") == NULL && chance(0.5))
        add(line, "--pipeline", pipeline);
    if (strstr(line, "interleaved") != NULL)
        add(line, "--vp", "2");
    if (strstr(line, "--cp") != NULL && chance(0.5))
        add(line, "--context", "ulysses");
    if (strstr(line, "--ep") != NULL && chance(0.5))
        add(line, "--expert-imbalance", "1.5");
    if (strstr(line, "--tp 1") == NULL && chance(0.3))
        add(line, "--sp", PICK("on", "off"));
    if (chance(0.3))
        add(line, "--micro-batch", PICK("1", "2", "4"));
    if (chance(0.3))
        add(line, "--order", PICK("tp-pp-dp", "pp-tp-cp-ep-dp", "dp-tp-pp"));
    if (chance(0.3))
        add(line, "--recompute", PICK("full", "selective"));
    if (chance(0.8))
        add(line, "--any-memory", "");
    if (strategy[1] == 's' && chance(0.6))
        add(line, "--keep-weights", "");
    if (chance(0.3))
        add(line, "--devices", PICK("8..64", "16,32"));
    if (chance(0.3))
        add(line, "--steps", "1000");
}

static int call(const char *line, struct tutti_sink_text *ret)
{
    char words[LINE_BYTES + 32];
    char *argv[WORDS_MAX];
    struct tutti_sink sink;
    struct tutti_err err;
    int argc = 0;
    int code;

    snprintf(words, sizeof(words), "%s", line);
    for (char *at = words; at != NULL && argc < WORDS_MAX; argc++) {
        argv[argc] = at;
        at = strchr(at, ' ');
        if (at != NULL)
            *at++ = '\0';
    }
    if (tutti_sink_open_text(&sink, ret, &err) < 0)
        abort();
    code = tutti_cli_call(argc, argv, &sink, &err);
    CHECK(tutti_sink_close(&sink, NULL) == 0);
    return code;
}

static size_t widest(const char *text)
{
    size_t most = 0;

    while (*text != '\0') {
        const size_t columns = strcspn(text, "\n");

        most = columns > most ? columns : most;
        text += columns + (text[columns] == '\n');
    }
    return most;
}

/* The numbers of the object "breakdown_s", added up; the first of its members is at its brace. */
static double sum_of_parts(const char *json)
{
    const char *at = strstr(json, "\"breakdown_s\": {");
    const char *end = at != NULL ? strchr(at, '}') : NULL;
    double sum = 0;

    CHECK(end != NULL);
    for (at = end != NULL ? strchr(at, '{') : NULL; at != NULL && at < end; at++) {
        at = strstr(at, "\": ");
        if (at == NULL || at > end)
            break;
        at += 3;
        CHECK(strtod(at, NULL) >= 0);
        sum += strtod(at, NULL);
    }
    return sum;
}

static double number_of(const char *json, const char *key)
{
    const char *at = strstr(json, key);

    CHECK(at != NULL);
    return at != NULL ? strtod(at + strlen(key), NULL) : NAN;
}

/* *ret_answered: it was not refused. */
static void check_command(const char *line, bool *ret_answered)
{
    char longer[LINE_BYTES + 32];
    struct tutti_sink_text page, json;
    const int code = call(line, &page);

    *ret_answered = code == 0;
    CHECK(code == 0 || code == 2 || code == 77);
    if (code != 0) {
        CHECK(strchr(page.notes, '\n') == page.notes + page.notes_bytes - 1);
        tutti_sink_text_done(&page);
        return;
    }
    CHECK(widest(page.out) <= COLUMNS);
    snprintf(longer, sizeof(longer), "%s --format json", line);
    CHECK_INT(call(longer, &json), 0);
    CHECK(fabs(sum_of_parts(json.out) / number_of(json.out, "\"step_time_s\": ") - 1) < 1e-9);
    tutti_sink_text_done(&json);
    tutti_sink_text_done(&page);
}

/* A value that its type has. */
static const char *some_value(const struct tutti_option *option, char buf[LINE_BYTES])
{
    switch (option->type) {
    case TUTTI_OPTION_FLAG:
        return "";
    case TUTTI_OPTION_TIME:
        return "1s";
    case TUTTI_OPTION_CHOICE:
        snprintf(buf, LINE_BYTES, "%.*s", (int)strcspn(option->value, "|"), option->value);
        return buf;
    case TUTTI_OPTION_TEXT:
        return "x";
    default:
        snprintf(buf, LINE_BYTES, "%d", option->min > 0 ? (int)option->min : 1);
        return buf;
    }
}

/* Whether its help says that it is of real training, and not of a simulated step as well. */
static bool is_of_real(const struct tutti_option *option)
{
    static const char *const begins[] = {"-B", "--checkpoint:", "tcp:", "tcp, nccl:", "mpi, nccl:"};

    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
        if (strncmp(option->help, begins[i], strlen(begins[i])) == 0)
            return strstr(option->help, "simulated:") == NULL;
    return false;
}

static void check_refused(const struct tutti_option *option, const char *line)
{
    char with[LINE_BYTES], name[64], value[LINE_BYTES];
    struct tutti_sink_text page;

    snprintf(name, sizeof(name), "--%s", option->name);
    snprintf(with, sizeof(with), "%s", line);
    add(with, name, some_value(option, value));
    CHECK_INT(call(with, &page), 2);
    CHECK(strstr(page.notes, name) != NULL);
    CHECK(strstr(page.notes, "simulated") != NULL);
    CHECK(strchr(page.notes, '\n') == page.notes + page.notes_bytes - 1);
    tutti_sink_text_done(&page);
}

/* Two say something elsewhere: with failures, and where processes are lost or come. */
TEST(options_of_real_training_are_refused_of_simulated_steps)
{
    static const char *const lines[] = {
        "train dgx-1v --model gpt2", "train dgx-1v --model gpt2 --tp 2",
        "train dgx-1v:nodes=2 --model resnet50 --strategy parameter-server"};
    uint32_t count = 0;

    for (size_t i = 0; i < tutti_cli_train.option_count; i++) {
        const struct tutti_option *option = &tutti_cli_train.options[i];
        const int before = test_failures;

        if (!is_of_real(option) || strcmp(option->name, "backend") == 0 ||
            strcmp(option->name, "save-secs") == 0)
            continue;
        count++;
        for (size_t k = 0; k < sizeof(lines) / sizeof(lines[0]); k++)
            check_refused(option, lines[k]);
        if (test_failures > before)
            fprintf(stderr, "  ... of --%s\n", option->name);
    }
    CHECK(count >= 30);
}

TEST(a_divided_step_is_refused_in_a_line_or_told_in_parts_that_add_up)
{
    const int count = (int)test_count(COMMANDS_FULL, COMMANDS);
    int answered_count = 0;

    tutti_random_seed(&draws, test_seed);
    for (int i = 0; i < count; i++) {
        const int before = test_failures;
        char line[LINE_BYTES];
        bool answered;

        draw_command(line);
        if (i % 4 == 0)
            add(line, "--explain", "");
        check_command(line, &answered);
        answered_count += answered;
        if (test_failures > before)
            fprintf(stderr, "  ... by tutti %s\n", line);
    }
    CHECK(count < COMMANDS || answered_count > count / 5); /* else too little was looked at */
}
