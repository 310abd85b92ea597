/* Reads what failures and checkpoints are; see goodput.h. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "tools/goodput/goodput.h"

enum { WORD_BYTES = 64, RUNS = 100, RUNS_MAX = 10000, COUNT_MAX = 1 << 20 };

static const double TEN_MINUTES_S = 600, DAY_S = 86400, YEARS_MAX_S = 3e13;

/* "90s", "1.5h", "6y": times of which there may be more than fit into picoseconds. */
static bool read_time(const char *text, double *ret_s)
{
    static const struct {
        const char *unit;
        double s;
    } units[] = {{"ms", 1e-3}, {"s", 1},     {"min", 60},
                 {"h", 3600},  {"d", 86400}, {"y", 365.25 * 86400}};
    char *end;
    double value;

    if (!isdigit((unsigned char)text[0]) || strpbrk(text, "xXpP") != NULL)
        return false;
    value = strtod(text, &end);
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (strcmp(end, units[i].unit) == 0 && value * units[i].s <= YEARS_MAX_S) {
            *ret_s = value * units[i].s;
            return true;
        }
    return false;
}

static bool read_count(const char *text, uint32_t least, uint32_t most, uint32_t *ret)
{
    uint64_t value;

    if (tutti_read_count(text, least, most, &value, NULL) < 0)
        return false;
    *ret = (uint32_t)value;
    return true;
}

static bool read_saving(const char *text, struct tutti_goodput_question *q)
{
    q->memory = strcmp(text, "memory") == 0;
    q->async = q->memory || strcmp(text, "async") == 0;
    return q->async || strcmp(text, "sync") == 0;
}

static int refuse(const char *word, struct tutti_err *err)
{
    return tutti_fail(
        err, TUTTI_EINVAL,
        "option '--failures': '%.60s' (llama3, or WHAT=TIME with 10min, 6h, 2d or 5y of device, "
        "host, network, software, planned, preempt, detect, notice, repair, return, swap, "
        "cold-swap, restart-device; cold=N, least=N, storage=N, runs=N, copy=RATE, "
        "device-rate=RATE, save=sync|async|memory)",
        word);
}

/* One WHAT=VALUE; which of those that there are is one of `ret_said`'s bits. */
static int read_word(const char *word, struct tutti_goodput_question *q, uint32_t *ret_said,
                     struct tutti_err *err)
{
    const struct {
        const char *key;
        double *time_s;
        uint32_t *count;
        uint64_t *rate;
        bool is_mean;
    } keys[] = {{"device=", &q->mean_s[TUTTI_GOODPUT_DEVICE], NULL, NULL, true},
                {"host=", &q->mean_s[TUTTI_GOODPUT_HOST], NULL, NULL, true},
                {"network=", &q->mean_s[TUTTI_GOODPUT_NETWORK], NULL, NULL, true},
                {"software=", &q->mean_s[TUTTI_GOODPUT_SOFTWARE], NULL, NULL, true},
                {"planned=", &q->mean_s[TUTTI_GOODPUT_PLANNED], NULL, NULL, true},
                {"preempt=", &q->mean_s[TUTTI_GOODPUT_PREEMPT], NULL, NULL, true},
                {"detect=", &q->detect_s, NULL, NULL, false},
                {"notice=", &q->notice_s, NULL, NULL, false},
                {"repair=", &q->repair_s, NULL, NULL, false},
                {"return=", &q->return_s, NULL, NULL, false},
                {"swap=", &q->swap_s, NULL, NULL, false},
                {"cold-swap=", &q->cold_swap_s, NULL, NULL, false},
                {"restart-device=", &q->restart_device_s, NULL, NULL, false},
                {"cold=", NULL, &q->cold_spares, NULL, false},
                {"least=", NULL, &q->least_devices, NULL, false},
                {"storage=", NULL, &q->storage_every, NULL, false},
                {"runs=", NULL, &q->runs, NULL, false},
                {"copy=", NULL, NULL, &q->copy_bytes_per_s, false},
                {"device-rate=", NULL, NULL, &q->device_bytes_per_s, false},
                {"save=", NULL, NULL, NULL, false}};
    const size_t count = sizeof(keys) / sizeof(keys[0]);
    size_t i = 0;

    while (i < count && strncmp(word, keys[i].key, strlen(keys[i].key)) != 0)
        i++;
    if (i == count && strcmp(word, "llama3") != 0)
        return refuse(word, err);
    if ((*ret_said >> i & 1) != 0)
        return tutti_fail(err, TUTTI_EINVAL, "option '--failures': '%.*s' twice (once)",
                          (int)strcspn(word, "="), word);
    *ret_said |= UINT32_C(1) << i;
    if (i == count)
        q->llama3 = true;
    else if (keys[i].time_s != NULL) {
        if (!read_time(word + strlen(keys[i].key), keys[i].time_s) ||
            (keys[i].is_mean && *keys[i].time_s <= 0))
            return refuse(word, err);
    } else if (keys[i].count != NULL) {
        const uint32_t least = keys[i].count == &q->runs;
        const uint32_t most = keys[i].count == &q->runs ? RUNS_MAX : COUNT_MAX;

        if (!read_count(word + strlen(keys[i].key), least, most, keys[i].count))
            return tutti_fail(err, TUTTI_EINVAL, "option '--failures': '%.60s' (%u to %u)", word,
                              least, most);
    } else if (keys[i].rate != NULL ? tutti_read_rate(strchr(word, '=') + 1, keys[i].rate, NULL) < 0
                                    : !read_saving(strchr(word, '=') + 1, q))
        return refuse(word, err);
    return 0;
}

static int read_words(const char *text, struct tutti_goodput_question *q, struct tutti_err *err)
{
    uint32_t said = 0;
    int status = 0;

    while (text != NULL && status == 0) {
        char word[WORD_BYTES];
        size_t bytes = strcspn(text, ",");

        (void)snprintf(word, sizeof(word), "%.*s", (int)(bytes < 1000 ? bytes : 1000), text);
        status = bytes < sizeof(word) ? read_word(word, q, &said, err) : refuse(word, err);
        q->repair_said |= strncmp(word, "repair=", 7) == 0;
        text = text[bytes] == ',' ? text + bytes + 1 : NULL;
    }
    return status;
}

static int check(struct tutti_goodput_question *q, struct tutti_err *err)
{
    bool said = false;

    for (int i = 0; i < TUTTI_GOODPUT_CAUSE_COUNT; i++)
        said |= q->mean_s[i] > 0 && (i < TUTTI_GOODPUT_SOFTWARE || q->llama3);
    if (q->llama3 && said && q->mean_s[TUTTI_GOODPUT_PREEMPT] <= 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--failures': 'llama3' says how often devices, hosts, network, "
                          "software and plans interrupt, and so does another (--mtbf or device=, "
                          "..., or llama3)");
    if (q->notice_s > 0 && q->mean_s[TUTTI_GOODPUT_PREEMPT] <= 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--failures': 'notice=' says nothing without 'preempt='");
    if (q->return_s > 0 && q->mean_s[TUTTI_GOODPUT_PREEMPT] <= 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--failures': 'return=' says nothing without 'preempt='");
    if ((q->cold_spares > 0 || q->least_devices > 0 || q->repair_said) && !q->spares_said)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--failures': 'cold=', 'least=' and 'repair=' without "
                          "'--spares N': there is always a host (how many stand by: 0 or more)");
    if (q->storage_every > 1 && !q->memory)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--failures': 'storage=' without 'save=memory': each is written");
    if (q->copy_bytes_per_s > 0 && !q->async)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--failures': 'copy=' without 'save=async' or 'save=memory'");
    return 0;
}

static int read_option_time(const struct tutti_args *args, const char *name, double *ret_s,
                            struct tutti_err *err)
{
    const char *text = tutti_args_text(args, name);

    if (text != NULL && (!read_time(text, ret_s) || *ret_s <= 0))
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--%s': '%.40s' is no time above 0 (90s, 10min, 6h, 2d or 5y)",
                          name, text);
    return 0;
}

static void assume(struct tutti_goodput_question *q)
{
    bool said = q->llama3;

    for (int i = 0; i < TUTTI_GOODPUT_CAUSE_COUNT; i++)
        said |= q->mean_s[i] > 0;
    q->llama3 |= !said;
    if (!q->restart_said)
        q->restart_s = TEN_MINUTES_S;
    if (q->spares_said && !q->repair_said)
        q->repair_s = DAY_S;
}

int tutti_goodput_refuse(const struct tutti_args *args, const char *why, struct tutti_err *err)
{
    static const char *const names[] = {"days", "mtbf", "failures", "restart", "spares"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (tutti_args_given(args, names[i]))
            return tutti_fail(err, TUTTI_EINVAL, "option '--%s' %s", names[i], why);
    return 0;
}

int tutti_goodput_read(const struct tutti_args *args, bool ends, struct tutti_goodput_question *ret,
                       struct tutti_err *err)
{
    struct tutti_goodput_question q = {.runs = RUNS};
    int status;

    q.asked = tutti_args_given(args, "days") || tutti_args_given(args, "mtbf") ||
              tutti_args_given(args, "failures");
    *ret = q;
    if (!q.asked)
        return tutti_goodput_refuse(
            args, "says nothing without failures ('--days N', '--mtbf TIME' or '--failures LIST')",
            err);
    q.days = tutti_args_given(args, "days") ? tutti_args_real(args, "days") : 0;
    if (tutti_args_given(args, "days") && !(q.days > 0))
        return tutti_fail(err, TUTTI_EINVAL, "option '--days': '%s' (more than 0)",
                          tutti_args_text(args, "days"));
    if (!ends && q.days <= 0)
        return tutti_fail(
            err, TUTTI_EINVAL,
            "failures of a training of no length ('--days N', or its steps or tokens)");
    q.restart_said = tutti_args_given(args, "restart");
    q.spares_said = tutti_args_given(args, "spares");
    q.spares = q.spares_said ? (uint32_t)tutti_args_number(args, "spares") : 0;
    q.seed = tutti_args_number(args, "seed");
    if (tutti_args_given(args, "save-secs"))
        q.every_s = tutti_args_real(args, "save-secs");
    if (tutti_args_given(args, "save-rate"))
        q.save_bytes_per_s = tutti_args_number(args, "save-rate");
    status = read_option_time(args, "restart", &q.restart_s, err);
    if (status == 0)
        status = read_words(tutti_args_text(args, "failures"), &q, err);
    if (status == 0 && tutti_args_given(args, "mtbf") && q.mean_s[TUTTI_GOODPUT_DEVICE] > 0)
        status = tutti_fail(err, TUTTI_EINVAL,
                            "options '--mtbf' and '--failures device=' say the same (one of them)");
    if (status == 0)
        status = read_option_time(args, "mtbf", &q.mean_s[TUTTI_GOODPUT_DEVICE], err);
    if (status == 0)
        status = check(&q, err);
    if (status < 0)
        return status;
    assume(&q);
    *ret = q;
    return 0;
}
