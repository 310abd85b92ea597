/* Reading the facts around the tables of an nccl-tests log. */
#include "traces/nccl_tests/facts.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "traces/nccl_tests/row.h"

enum { RANK_LIMIT = 1 << 24, ITERATION_LIMIT = 1 << 24 };

static const struct {
    const char *name;
    int test;
} tests[] = {
    {"all_reduce_perf", TUTTI_ALLREDUCE},
    {"all_gather_perf", TUTTI_ALLGATHER},
    {"reduce_scatter_perf", TUTTI_REDUCESCATTER},
    {"alltoall_perf", TUTTI_ALLTOALL},
    {"broadcast_perf", TUTTI_BROADCAST},
    {"sendrecv_perf", TUTTI_SENDRECV},
    {"reduce_perf", TUTTI_REDUCE_TO_ROOT},
    {"alltoallv_perf", LOG_TEST_OTHER},
    {"gather_perf", LOG_TEST_OTHER},
    {"scatter_perf", LOG_TEST_OTHER},
    {"hypercube_perf", LOG_TEST_OTHER},
    {"all_reduce_bias_perf", LOG_TEST_OTHER},
};

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || c == '_';
}

/* The test whose program the line names; UNKNOWN for none or for several (a loop in a script). */
static int named_test(const char *text)
{
    int found = LOG_TEST_UNKNOWN;

    if (strstr(text, "_perf") == NULL)
        return LOG_TEST_UNKNOWN;
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        const char *at = strstr(text, tests[i].name);
        while (at != NULL && at > text && is_name_char(at[-1]))
            at = strstr(at + 1, tests[i].name);
        if (at != NULL && found != LOG_TEST_UNKNOWN && found != tests[i].test)
            return LOG_TEST_UNKNOWN;
        if (at != NULL)
            found = tests[i].test;
    }
    return found;
}

/* "Rank  0 Group  0 Pid  12345 on host device  0 [0000:1b:00] NAME" */
static bool is_device_line(const char *text)
{
    const char *rank = strstr(text, "Rank ");
    const char *pid = rank == NULL ? NULL : strstr(rank, " Pid ");
    const char *on = pid == NULL ? NULL : strstr(pid, " on ");

    return on != NULL && strstr(on, " device ") != NULL;
}

static const char *library_version(const char *text)
{
    static const char *const marks[] = {"NCCL version ", "RCCL version ", "RCCL version : "};
    const char *found = NULL;

    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        const char *at = strstr(text, marks[i]);
        if (at != NULL && at[strlen(marks[i])] >= '0' && at[strlen(marks[i])] <= '9')
            found = at + strlen(marks[i]);
    }
    return found;
}

/* What joins the hosts, by what NCCL and its plugins print with NCCL_DEBUG=INFO; NULL: the line
 * does not say. "Using network AWS Libfabric" does not: that plugin drives EFA and Slingshot alike.
 */
static const char *named_network(const char *text)
{
    static const struct {
        const char *mark, *network;
    } marks[] = {
        {"rovider is efa", "efa"},
        {"rovider is cxi", "slingshot"},
        {"Using network Socket", "tcp"},
        {"NET plugin Socket to comm", "tcp"},
        {"Using network GPUDirectTCPX", "tcpx"},
    };
    const char *ports = strstr(text, "NET/IB : Using [0]");

    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        if (strstr(text, marks[i].mark) != NULL)
            return marks[i].network;
    }
    if (ports == NULL)
        return NULL;
    return strstr(ports, "/RoCE") != NULL ? "roce" : strstr(ports, "/IB") != NULL ? "ib" : NULL;
}

enum tutti_log_fact tutti_log_fact_kind(const char *text, int *ret_test)
{
    *ret_test = named_test(text);
    if (strstr(text, "Avg bus bandwidth") != NULL)
        return LOG_FACT_AVERAGE;
    if (strstr(text, "Collective test concluded") != NULL)
        return LOG_FACT_END;
    if (strstr(text, "Collective test starting") != NULL || strstr(text, "nThread ") != NULL ||
        strstr(text, "ccl-tests version ") != NULL || is_device_line(text))
        return LOG_FACT_RUN;
    if (library_version(text) != NULL)
        return LOG_FACT_VERSION;
    if (strstr(text, " nranks ") != NULL)
        return LOG_FACT_RANKS;
    if (named_network(text) != NULL)
        return LOG_FACT_NETWORK;
    return *ret_test != LOG_TEST_UNKNOWN ? LOG_FACT_TEST : LOG_FACT_NONE;
}

/* Copies the word at `text`. */
static void copy_word(char *to, size_t to_bytes, const char *text)
{
    snprintf(to, to_bytes, "%.*s", (int)strcspn(text, " "), text);
}

static uint64_t number_after(const char *text, const char *mark, uint64_t otherwise)
{
    const char *at = strstr(text, mark);
    char *end = NULL;
    uint64_t value;

    if (at == NULL)
        return otherwise;
    value = strtoull(at + strlen(mark), &end, 10);
    return end == at + strlen(mark) ? otherwise : value;
}

/* "nccl-library=22809" is NCCL 2.28.9: major * 10000 + minor * 100 + patch since 2.9. */
static void read_library_code(const char *text, struct tutti_log_facts *facts)
{
    uint64_t code = number_after(text, "ccl-library=", 0);

    if (code >= 20900 && code < 1000000)
        snprintf(facts->library, sizeof(facts->library), "%u.%u.%u", (unsigned)(code / 10000),
                 (unsigned)(code / 100 % 100), (unsigned)(code % 100));
}

/* "warmup iters: 5 iters: 20 agg iters: 1": the number before which no other word stands. */
static uint32_t read_iterations(const char *text)
{
    static const char mark[] = " iters: ";
    const char *at = strstr(text, mark);
    uint64_t count;

    while (at != NULL && at > text && is_name_char(at[-1]))
        at = strstr(at + 1, mark);
    count = at == NULL ? 0 : number_after(at, mark, 0);
    return count < ITERATION_LIMIT ? (uint32_t)count : 0;
}

/* FNV-1a, 64 bits, of what `hash` is of and a word; never 0. */
static uint64_t hash_word(uint64_t hash, const char *text)
{
    for (; *text != '\0' && *text != ' '; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
    return hash == 0 ? 1 : hash;
}

static struct tutti_log_place read_device(const char *text, struct tutti_log_facts *facts)
{
    const char *process = strstr(text, " Pid ") + 5;
    const char *host = strstr(process - 1, " on ") + 4;
    struct tutti_log_place place;
    const char *name = strchr(strstr(host - 1, " device "), ']');
    uint64_t rank = number_after(text, "Rank ", RANK_LIMIT);
    size_t bytes;

    if (rank < RANK_LIMIT && rank >= facts->device_rank_max)
        facts->device_rank_max = (uint32_t)rank + 1;
    if (name != NULL) {
        char device[sizeof(facts->device)];

        name += 1 + strspn(name + 1, " ");
        (void)snprintf(device, sizeof(device), "%s", name);
        for (bytes = strlen(device); bytes > 0 && device[bytes - 1] == ' '; bytes--)
            device[bytes - 1] = '\0';
        facts->devices_differ |= facts->device[0] != '\0' && strcmp(device, facts->device) != 0;
        if (facts->device[0] == '\0')
            memcpy(facts->device, device, sizeof(device));
    }
    place.host = hash_word(UINT64_C(14695981039346656037), host + strspn(host, " "));
    place.process = hash_word(place.host, process + strspn(process, " "));
    return place;
}

void tutti_log_fact_read(const char *text, struct tutti_log_facts *facts,
                         struct tutti_log_place *ret_place)
{
    const char *at;
    uint64_t ranks;
    int test;
    enum tutti_log_fact kind = tutti_log_fact_kind(text, &test);

    *ret_place = (struct tutti_log_place){0};
    if (kind == LOG_FACT_NONE)
        return;
    if (kind == LOG_FACT_AVERAGE) {
        at = strstr(text, "Avg bus bandwidth") + strlen("Avg bus bandwidth");
        facts->average_busbw_GBps = strtod(at + strspn(at, " :"), NULL);
        return;
    }
    if (test != LOG_TEST_UNKNOWN)
        facts->test = test;
    if (is_device_line(text))
        *ret_place = read_device(text, facts);
    if ((at = strstr(text, "ccl-tests version ")) != NULL) {
        copy_word(facts->version, sizeof(facts->version), at + strlen("ccl-tests version "));
        read_library_code(text, facts);
    }
    if ((at = library_version(text)) != NULL)
        copy_word(facts->library, sizeof(facts->library), at);
    if (strstr(text, "nThread ") != NULL)
        facts->iteration_count = read_iterations(text);
    if (kind == LOG_FACT_NETWORK)
        facts->network = named_network(text);
    ranks = number_after(text, " nranks ", 0);
    if (ranks < RANK_LIMIT && ranks > facts->info_rank_count)
        facts->info_rank_count = (uint32_t)ranks;
}

/* The row whose bandwidth is printed with most digits, or NULL. */
static const struct tutti_nccl_row *fastest(const struct tutti_nccl_row *rows, size_t row_count)
{
    const struct tutti_nccl_row *row = NULL;

    for (size_t i = 0; i < row_count; i++) {
        if (rows[i].bytes > 0 && rows[i].count > 0 && rows[i].type[0] != '\0' &&
            (row == NULL || rows[i].out_of_place.algbw_GBps > row->out_of_place.algbw_GBps))
            row = &rows[i];
    }
    return row;
}

int tutti_log_guess_test(const struct tutti_nccl_row *rows, size_t row_count)
{
    const struct tutti_nccl_row *row = fastest(rows, row_count);
    const struct tutti_nccl_side *side;
    uint64_t block_bytes;
    bool checked;
    bool in_place_checked;
    bool whole;

    if (row == NULL ||
        __builtin_mul_overflow(row->count, tutti_log_type_bytes(row->type), &block_bytes))
        return LOG_TEST_UNKNOWN;
    side = &row->out_of_place;
    checked = !isnan(side->wrong) && !isnan(row->in_place.time_us);
    in_place_checked = !isnan(row->in_place.wrong);
    whole = block_bytes == row->bytes;
    if (row->root >= 0 && !whole)
        return LOG_TEST_OTHER; /* gather and scatter count blocks */
    if (row->root >= 0)
        return row->redop[0] == '\0' || strcmp(row->redop, "none") == 0 ? TUTTI_BROADCAST
                                                                        : TUTTI_REDUCE_TO_ROOT;
    /* alltoall and sendrecv cannot be checked in place and say N/A there. */
    if (row->redop[0] == '\0' || strcmp(row->redop, "none") == 0) {
        if (whole || !checked)
            return LOG_TEST_UNKNOWN;
        return in_place_checked ? TUTTI_ALLGATHER : TUTTI_ALLTOALL;
    }
    if (!whole)
        return TUTTI_REDUCESCATTER;
    if (side->algbw_GBps >= 0.1 && side->busbw_GBps > 1.1 * side->algbw_GBps)
        return TUTTI_ALLREDUCE;
    /* Two ranks, or a sendrecv: busbw is algbw in both. */
    if (!checked)
        return LOG_TEST_UNKNOWN;
    return in_place_checked ? TUTTI_ALLREDUCE : TUTTI_SENDRECV;
}

/* Half a unit of the last digit printed: nccl-tests fits figures into six characters. */
static double half_digit(double value)
{
    if (value < 999.995)
        return 0.00501;
    return value < 9999.95 ? 0.0501 : 0.501;
}

/* Narrows [*low, *high] to what one pair of bandwidths allows for their ratio. */
static void narrow(const struct tutti_nccl_side *side, double *low, double *high)
{
    double alg = side->algbw_GBps;
    double bus = side->busbw_GBps;

    if (!(alg >= 0.1) || !(bus > 0))
        return;
    *low = fmax(*low, (bus - half_digit(bus)) / (alg + half_digit(alg)));
    *high = fmin(*high, (bus + half_digit(bus)) / (alg - half_digit(alg)));
}

bool tutti_log_guess_ranks(enum tutti_collective collective, const struct tutti_nccl_row *rows,
                           size_t row_count, uint32_t *ret_least, uint32_t *ret_most)
{
    double scale = collective == TUTTI_ALLREDUCE ? 2 : 1;
    double low = 0;
    double high = scale;
    double most;
    double least;

    if (collective != TUTTI_ALLREDUCE && collective != TUTTI_ALLGATHER &&
        collective != TUTTI_REDUCESCATTER && collective != TUTTI_ALLTOALL)
        return false;
    for (size_t i = 0; i < row_count; i++) {
        narrow(&rows[i].out_of_place, &low, &high);
        narrow(&rows[i].in_place, &low, &high);
    }
    if (!(low > 0) || low > high)
        return false;
    /* ratio = scale * (n - 1) / n, so n = scale / (scale - ratio). */
    least = ceil(scale / (scale - low));
    most = high < scale ? floor(scale / (scale - high)) : RANK_LIMIT;
    if (!(least >= 2) || !(least <= most) || least > RANK_LIMIT)
        return false;
    *ret_least = (uint32_t)least;
    *ret_most = most > RANK_LIMIT ? RANK_LIMIT : (uint32_t)most;
    return true;
}
