/* Closures of one's own on standing workers: how many primes there are below a million.
 *   cc own_cluster.c -o own_cluster $(pkg-config --cflags --libs tutti)
 *   ./own_cluster serve 127.0.0.1:2224 & ./own_cluster serve 127.0.0.1:2225 &
 *   ./own_cluster drive 127.0.0.1:2224 127.0.0.1:2225
 * A worker may be killed meanwhile. */
#include "runtime/cluster.h"
#include "runtime/status.h"
#include <stdio.h>
#include <string.h>

enum { ALL = 1000000, PART = 10000, PARTS = ALL / PART };
static const tutti_ps WAIT_PS = 60 * TUTTI_PS_PER_S;

/* What a worker does: input and result are bytes, here of one number each. */
static int count(void *context, const void *input, uint64_t bytes,
                 struct tutti_cluster_reply *reply, struct tutti_err *err)
{
    uint32_t first, found = 0;

    if (context != NULL || bytes != sizeof(first))
        return tutti_fail(err, TUTTI_EINVAL, "no number");
    memcpy(&first, input, sizeof(first));
    for (uint32_t n = first, d; n < first + PART; n++) {
        for (d = 2; d * d <= n && n % d != 0;)
            d++;
        found += n > 1 && d * d > n;
    }
    return tutti_cluster_reply(reply, &found, sizeof(found), err);
}

static int serve(const char *address, struct tutti_err *err)
{
    const struct tutti_cluster_function functions[] = {{"count", count, NULL}};
    const struct tutti_cluster_worker_opts opts = {
        .size = sizeof(opts), .address = address, .functions = functions, .function_count = 1};
    struct tutti_cluster_worker *worker = NULL;
    bool served;
    int status = tutti_cluster_worker_open(&opts, &worker, err);

    while (status == 0) /* one driver after the other */
        status = tutti_cluster_worker_serve(worker, WAIT_PS, &served, err);
    tutti_cluster_worker_close(worker);
    return status;
}

static int drive(char **addresses, uint32_t address_count, struct tutti_err *err)
{
    const struct tutti_cluster_opts opts = {.size = sizeof(opts),
                                            .addresses = (const char *const *)addresses,
                                            .address_count = address_count};
    struct tutti_cluster_driver *cluster = NULL;
    uint64_t closures[PARTS], bytes, all = 0;
    const void *found;
    int status = tutti_cluster_open(&opts, &cluster, err);

    for (uint32_t i = 0, first = 0; i < PARTS && status == 0; i++, first += PART)
        status = tutti_cluster_schedule(cluster, "count", &first, sizeof(first), WAIT_PS,
                                        &closures[i], err);
    for (uint32_t i = 0; i < PARTS && status == 0; i++) {
        status = tutti_cluster_fetch(cluster, closures[i], WAIT_PS, &found, &bytes, err);
        all += status == 0 ? *(const uint32_t *)found : 0;
    }
    if (status == 0)
        printf("%u primes below %d\n", (unsigned)all, ALL);
    tutti_cluster_close(cluster);
    return status;
}

int main(int argc, char **argv)
{
    struct tutti_err err = {"serve ADDRESS, or drive ADDRESS..."};
    int status = -1;

    if (argc > 2)
        status = strcmp(argv[1], "serve") == 0 ? serve(argv[2], &err)
                                               : drive(argv + 2, (uint32_t)argc - 2, &err);
    if (status < 0)
        fprintf(stderr, "own_cluster: %s\n", err.text);
    return status < 0;
}
