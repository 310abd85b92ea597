/* A pacer of real servers says what the simulator does: workers that go by it, under the same
 * coordinator and by a clock of ours, take as long. */
#include <math.h>

#include "runtime/random.h"
#include "runtime/status.h"
#include "sim/servers.h"
#include "tests/test.h"

enum { WORKERS_MAX = 8 };

static const tutti_ps MS = 1000000000;

struct run {
    const struct tutti_servers_opts *opts;
    struct tutti_coordinator *coordinator;
    struct tutti_servers_pacer *pacer;
    struct tutti_random random;
    int at[WORKERS_MAX]; /* an enum tutti_servers_pace; -1: it waits for the coordinator */
    tutti_ps now_ps;
    bool finished;
};

static void feed(struct run *r, enum tutti_coord_event_kind kind, uint32_t worker)
{
    const struct tutti_coord_member *m = tutti_coordinator_member(r->coordinator, worker);
    const struct tutti_coord_event event = {kind, worker, m->incarnation, m->episode, 0};
    uint32_t count;
    const struct tutti_coord_action *action =
        tutti_coordinator_event(r->coordinator, &event, &count);

    for (uint32_t i = 0; i < count; i++, action++)
        if (action->kind == TUTTI_ACTION_START) {
            r->at[action->member] = TUTTI_PACE_PULL;
            tutti_servers_pacer_begin(r->pacer, action->member, TUTTI_PACE_PULL, r->now_ps);
        } else if (action->kind == TUTTI_ACTION_ABORT) {
            r->at[action->member] = -1;
            tutti_servers_pacer_stop(r->pacer, action->member, r->now_ps);
        } else if (action->kind == TUTTI_ACTION_FINISH) {
            r->finished = true;
        }
}

static void go_on(struct run *r, uint32_t worker)
{
    if (r->at[worker] == TUTTI_PACE_PUSH) {
        r->at[worker] = -1;
        feed(r, TUTTI_EVENT_DONE, worker);
        return;
    }
    r->at[worker]++;
    tutti_servers_pacer_begin(r->pacer, worker, (enum tutti_servers_pace)r->at[worker], r->now_ps);
}

/* The next end, or some time before it, when somebody looks in vain. */
static void wait(struct run *r)
{
    tutti_ps left_ps = INT64_MAX;

    for (uint32_t i = 0; i < r->opts->params.member_count; i++)
        if (r->at[i] >= 0) {
            const tutti_ps own_ps = tutti_servers_pacer_left(r->pacer, i, r->now_ps);

            left_ps = own_ps < left_ps ? own_ps : left_ps;
        }
    CHECK(left_ps < INT64_MAX);
    if (tutti_random_below(&r->random, 3) == 0)
        left_ps = (tutti_ps)tutti_random_below(&r->random, (uint64_t)left_ps + 1);
    r->now_ps += left_ps;
}

static tutti_ps pace(const struct tutti_servers_opts *opts)
{
    struct run r = {.opts = opts};
    void *memory = malloc(tutti_servers_pacer_bytes(opts));
    struct tutti_err err = {""};

    CHECK(memory != NULL);
    tutti_random_seed(&r.random, test_seed);
    CHECK_OK(tutti_coordinator_new(opts->ops, &opts->params, &r.coordinator, &err), err);
    CHECK_OK(tutti_servers_pacer_init(memory, opts, &r.pacer, &err), err);
    for (uint32_t i = 0; i < opts->params.member_count; i++)
        r.at[i] = -1;
    for (uint32_t i = 0; i < opts->params.member_count; i++)
        feed(&r, TUTTI_EVENT_JOINED, i);
    while (!r.finished && test_failures == 0) {
        wait(&r);
        for (uint32_t i = 0; i < opts->params.member_count && !r.finished; i++)
            if (r.at[i] >= 0 && tutti_servers_pacer_left(r.pacer, i, r.now_ps) == 0)
                go_on(&r, i);
    }
    tutti_coordinator_free(r.coordinator);
    free(memory);
    return r.now_ps;
}

TEST(who_goes_by_it_takes_what_is_simulated)
{
    const uint64_t count = test_count(2000, 200);
    struct tutti_random random;

    tutti_random_seed(&random, test_seed);
    for (uint64_t i = 0; i < count && test_failures == 0; i++) {
        uint64_t bytes[4];
        uint32_t paces[WORKERS_MAX];
        const uint32_t workers = 1 + (uint32_t)tutti_random_below(&random, WORKERS_MAX);
        const uint32_t servers = 1 + (uint32_t)tutti_random_below(&random, 4);
        struct tutti_servers_opts opts = {
            .size = sizeof(opts),
            .params = {.size = sizeof(opts.params), .member_count = workers, .last_step = 40},
            .host_count = workers + servers,
            .server_count = servers,
            .server_bytes = bytes,
            .pace_ppm = paces,
            .host_bytes_per_s = 1000000000,
            .latency_ps = (tutti_ps)tutti_random_below(&random, 2) * MS / 10,
            .compute_ps = (tutti_ps)(1 + tutti_random_below(&random, 50)) * MS};
        struct tutti_served served = {0};
        struct tutti_err err = {""};
        tutti_ps paced_ps;

        for (uint32_t k = 0; k < servers; k++)
            bytes[k] = 1 + tutti_random_below(&random, 20000000);
        for (uint32_t k = 0; k < workers;
             k++) /* no two alike, so that nothing is decided by a ps */
            paces[k] = 1000000 + 100003 * k + (uint32_t)tutti_random_below(&random, 100000);
        if (tutti_random_below(&random, 3) == 0)
            opts.apply_bytes_per_s = 3000000000;
        if (tutti_random_below(&random, 2) == 0 && workers > 1) {
            opts.params.aggregate = workers - 1;
            opts.params.late = (enum tutti_late)tutti_random_below(&random, 3);
        }
        CHECK_OK(tutti_coordinator_find(tutti_random_below(&random, 2) == 0 ? "async" : "sync",
                                        &opts.ops, &err),
                 err);
        CHECK_OK(tutti_servers_play(&opts, &served, &err), err);
        paced_ps = pace(&opts);
        if (fabs((double)(paced_ps - served.total_ps)) > 1e-6 * (double)served.total_ps)
            TEST_FAIL("case %" PRIu64 ", %s: paced %" PRId64 " ps, simulated %" PRId64, i,
                      opts.ops->name, paced_ps, served.total_ps);
    }
}

TEST(nonsense_is_refused)
{
    struct tutti_servers_opts opts = {.size = sizeof(opts),
                                      .params = {.size = sizeof(opts.params), .member_count = 1}};
    struct tutti_servers_pacer *pacer = NULL;
    char memory[16];
    struct tutti_err err = {""};

    CHECK_INT(tutti_servers_pacer_init(memory, &opts, &pacer, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "parameter servers need a coordinator, a server and a last step");
    CHECK(pacer == NULL);
}
