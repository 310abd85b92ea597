/* A pacer of real servers: the same transfers over the same cards, by somebody else's clock. */
#include <assert.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/servers/play.h"

struct tutti_servers_pacer {
    struct servers s; /* without a coordinator: who begins what is said from outside */
};

/* Pieces of the block, one after another; `at` NULL: they are counted alone. */
struct carving {
    char *at;
    size_t used;
};

static void *carve(struct carving *c, uint64_t count, size_t bytes)
{
    void *piece = c->at == NULL ? NULL : c->at + c->used;

    c->used += ((size_t)count * bytes + 15) / 16 * 16;
    return piece;
}

static void *carve_copy(struct carving *c, const void *from, uint64_t count, size_t bytes)
{
    void *piece = carve(c, count, bytes);

    if (piece != NULL && from != NULL)
        memcpy(piece, from, (size_t)count * bytes);
    return from == NULL ? NULL : piece;
}

static void carve_all(struct carving *c, const struct tutti_servers_opts *opts, struct servers *s)
{
    const uint64_t workers = opts->params.member_count;
    const uint64_t hosts = opts->host_count;
    struct cards *cards = &s->cards;

    s->opts = *opts;
    s->opts.worker_host = carve_copy(c, opts->worker_host, workers, sizeof(*opts->worker_host));
    s->opts.server_host =
        carve_copy(c, opts->server_host, opts->server_count, sizeof(*opts->server_host));
    s->opts.server_bytes =
        carve_copy(c, opts->server_bytes, opts->server_count, sizeof(*opts->server_bytes));
    s->opts.pace_ppm = carve_copy(c, opts->pace_ppm, workers, sizeof(*opts->pace_ppm));
    s->worker = carve(c, workers + 1, sizeof(*s->worker));
    s->host_bytes = carve(c, hosts, sizeof(*s->host_bytes));
    s->host_free_ps = carve(c, hosts, sizeof(*s->host_free_ps));
    s->host_busy_ps = carve(c, hosts, sizeof(*s->host_busy_ps));
    cards->host_count = opts->host_count;
    cards->host_bytes_per_s = (double)opts->host_bytes_per_s;
    cards->flow_limit = (uint32_t)(workers + 1) * opts->server_count;
    cards->flow = carve(c, cards->flow_limit, sizeof(*cards->flow));
    cards->left = carve(c, hosts, 2 * sizeof(*cards->left));
    cards->open = carve(c, hosts, 2 * sizeof(*cards->open));
    cards->first = carve(c, hosts, 2 * sizeof(*cards->first));
    cards->used_bytes = carve(c, hosts, 2 * sizeof(*cards->used_bytes));
}

size_t tutti_servers_pacer_bytes(const struct tutti_servers_opts *opts)
{
    struct carving c = {.at = NULL};
    struct servers s = {.now_ps = 0};

    (void)carve(&c, 1, sizeof(struct tutti_servers_pacer));
    carve_all(&c, opts, &s);
    return c.used;
}

int tutti_servers_pacer_init(void *memory, const struct tutti_servers_opts *given,
                             struct tutti_servers_pacer **ret, struct tutti_err *err)
{
    struct tutti_servers_opts opts;
    struct tutti_servers_pacer *pacer;
    struct carving c = {.at = memory};
    int status = tutti_take("tutti_servers_opts", &opts, sizeof(opts), given,
                            TUTTI_BYTES_TO(struct tutti_servers_opts, relaxed), err);

    if (status == 0)
        status = tutti_served_check(&opts, err);
    if (status < 0)
        return status;
    opts.relaxed = false;
    memset(memory, 0, tutti_servers_pacer_bytes(&opts));
    pacer = carve(&c, 1, sizeof(*pacer));
    carve_all(&c, &opts, &pacer->s);
    tutti_served_add_bytes(&pacer->s);
    tutti_random_seed(&pacer->s.random, opts.seed);
    for (uint32_t i = 0; i <= servers_saver(&pacer->s); i++) {
        pacer->s.worker[i].phase = IDLE;
        pacer->s.worker[i].end_ps = INT64_MAX;
    }
    *ret = pacer;
    return 0;
}

/* A phase that takes a known time has ended: a pull, computing, or a gradient's way; of that the
 * servers take it, one after another. */
static void go_on(struct servers *s, uint32_t worker)
{
    if (s->worker[worker].phase == PUSHED)
        tutti_served_go_on(s, worker);
    else
        tutti_served_turn(s, worker, IDLE, INT64_MAX);
}

/* What happens up to `now`, in its order. */
static void advance(struct servers *s, tutti_ps now)
{
    assert(now >= s->now_ps);
    for (;;) {
        tutti_ps next;

        if (s->changed)
            tutti_cards_share(&s->cards);
        s->changed = false;
        next = tutti_cards_next(&s->cards);
        next = next == INT64_MAX ? next : s->now_ps + next;
        for (uint32_t i = 0; i < servers_workers(s); i++)
            next = s->worker[i].end_ps < next ? s->worker[i].end_ps : next;
        if (next > now)
            break;
        s->changed = tutti_cards_advance(&s->cards, next - s->now_ps);
        s->now_ps = next;
        if (s->changed)
            tutti_served_end_transfers(s);
        for (uint32_t i = 0; i < servers_workers(s); i++)
            if (s->worker[i].end_ps <= s->now_ps)
                go_on(s, i);
    }
    if (tutti_cards_advance(&s->cards, now - s->now_ps)) {
        s->now_ps = now;
        s->changed = true;
        tutti_served_end_transfers(s);
    }
    s->now_ps = now;
}

void tutti_servers_pacer_begin(struct tutti_servers_pacer *pacer, uint32_t worker,
                               enum tutti_servers_pace pace, tutti_ps now)
{
    struct servers *s = &pacer->s;

    assert(worker < servers_workers(s));
    tutti_servers_pacer_stop(pacer, worker, now);
    if (pace == TUTTI_PACE_COMPUTE)
        tutti_served_compute(s, worker);
    else
        tutti_served_transfer(s, worker, pace == TUTTI_PACE_PULL ? PULLING : PUSHING);
}

void tutti_servers_pacer_stop(struct tutti_servers_pacer *pacer, uint32_t worker, tutti_ps now)
{
    advance(&pacer->s, now);
    if (pacer->s.worker[worker].phase != IDLE)
        tutti_served_stop(&pacer->s, worker, IDLE);
}

tutti_ps tutti_servers_pacer_left(struct tutti_servers_pacer *pacer, uint32_t worker, tutti_ps now)
{
    struct servers *s = &pacer->s;
    const struct worker *w = &s->worker[worker];
    tutti_ps left_ps;

    advance(s, now);
    if (w->phase == IDLE)
        return 0;
    if (s->changed)
        tutti_cards_share(&s->cards);
    s->changed = false;
    /* Transfers that end make room for the others. */
    left_ps = w->end_ps != INT64_MAX ? w->end_ps - now : tutti_cards_next(&s->cards);
    return left_ps > 0 ? left_ps : 1;
}
