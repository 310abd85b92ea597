/* Parameter servers in virtual time: one loop over what ends next. */
#include "sim/servers.h"

#include <assert.h>
#include <math.h>

#include "runtime/arena.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/servers/sharing.h"

enum phase { AWAY, IDLE, PULLING, PULLED, COMPUTING, PUSHING, PUSHED };

struct worker {
    enum phase phase;
    tutti_ps end_ps;   /* of a phase that takes a known time; INT64_MAX: it waits for transfers */
    tutti_ps begin_ps; /* of the episode; COMPUTING: of that */
    bool has_weights;  /* of an episode before */
    tutti_ps lost_ps;  /* when it is lost; AWAY: when it is back */
    tutti_ps computed_ps;
    uint32_t transfers; /* under way, counted when one has ended */
};

struct servers {
    struct tutti_servers_opts opts;
    struct tutti_coordinator *coordinator;
    struct cards cards;
    struct worker *worker;
    uint64_t *host_bytes;   /* [host]: what its servers keep */
    tutti_ps *host_free_ps; /* [host]: when its servers have taken all gradients so far */
    bool changed;           /* transfers began or ended: rates are to be shared anew */
    bool finished;
    tutti_ps now_ps;
    tutti_ps half_ps; /* when half of the steps were done; 0: not yet */
    uint64_t half_step;
    uint64_t half_applied;
    uint64_t failures;
    struct tutti_random random;
};

static uint32_t worker_count(const struct servers *s)
{
    return s->opts.params.member_count;
}

static uint32_t host_of(const struct servers *s, uint32_t worker)
{
    return s->opts.worker_host == NULL ? worker : s->opts.worker_host[worker];
}

static tutti_ps time_of(uint64_t bytes, uint64_t bytes_per_s)
{
    return bytes_per_s == 0 ? 0 : tutti_wire_ps(bytes, bytes_per_s);
}

static void feed(struct servers *s, enum tutti_coord_event_kind kind, uint32_t worker);

/* ---- a worker's episode ---------------------------------------------------------------------- */

static double normal(struct servers *s)
{
    double a = 1 - tutti_random_unit(&s->random);
    double b = tutti_random_unit(&s->random);

    return sqrt(-2 * log(a)) * cos(2 * acos(-1.0) * b); /* Box & Muller 1958 */
}

static tutti_ps compute_ps(struct servers *s, uint32_t worker)
{
    double factor = s->opts.pace_ppm == NULL ? 1 : s->opts.pace_ppm[worker] / 1e6;

    if (s->opts.jitter > 0)
        factor *= exp(s->opts.jitter * normal(s) - s->opts.jitter * s->opts.jitter / 2);
    return (tutti_ps)llround((double)s->opts.compute_ps * factor);
}

/* Pull or push: with servers elsewhere by transfers, with those on the same host by itself. */
static void transfer(struct servers *s, uint32_t worker, enum phase phase)
{
    struct worker *w = &s->worker[worker];
    uint32_t home = host_of(s, worker);
    uint32_t before = s->cards.flow_count;

    for (uint32_t host = 0; host < s->opts.host_count; host++) {
        if (s->host_bytes[host] == 0 || host == home)
            continue;
        if (phase == PULLING)
            tutti_cards_add(&s->cards, worker, host, home, s->host_bytes[host]);
        else
            tutti_cards_add(&s->cards, worker, home, host, s->host_bytes[host]);
    }
    w->phase = phase;
    w->end_ps = INT64_MAX;
    s->changed = true;
    if (s->cards.flow_count == before) { /* all on its own host */
        w->phase = phase == PULLING ? PULLED : PUSHED;
        w->end_ps = s->now_ps + s->opts.latency_ps +
                    time_of(s->host_bytes[home], s->opts.local_bytes_per_s);
    }
}

/* Its gradient is at the servers, which take one after another. */
static tutti_ps taken_ps(struct servers *s)
{
    tutti_ps end = s->now_ps;

    for (uint32_t host = 0; s->opts.apply_bytes_per_s > 0 && host < s->opts.host_count; host++) {
        tutti_ps *free_ps = &s->host_free_ps[host];

        if (s->host_bytes[host] == 0)
            continue;
        *free_ps = *free_ps > s->now_ps ? *free_ps : s->now_ps;
        *free_ps += time_of(s->host_bytes[host], s->opts.apply_bytes_per_s);
        end = *free_ps > end ? *free_ps : end;
    }
    return end;
}

/* A phase that takes a known time has ended. */
static void go_on(struct servers *s, uint32_t worker)
{
    struct worker *w = &s->worker[worker];
    tutti_ps duration_ps;

    switch (w->phase) {
    case PULLED:
        w->phase = COMPUTING;
        duration_ps = compute_ps(s, worker);
        if (!s->opts.relaxed || !w->has_weights)
            w->begin_ps = s->now_ps;
        else if (w->begin_ps + duration_ps < s->now_ps)
            w->begin_ps = s->now_ps - duration_ps; /* it was done before the pull was */
        w->has_weights = true;
        w->end_ps = w->begin_ps + duration_ps;
        break;
    case COMPUTING:
        w->computed_ps += w->end_ps - w->begin_ps;
        transfer(s, worker, PUSHING);
        break;
    case PUSHED:
        w->phase = PUSHING; /* the servers are at it */
        w->end_ps = taken_ps(s);
        break;
    default:
        assert(w->phase == PUSHING);
        w->phase = IDLE;
        w->end_ps = INT64_MAX;
        feed(s, TUTTI_EVENT_DONE, worker);
        break;
    }
}

static void stop(struct servers *s, uint32_t worker, enum phase phase)
{
    struct worker *w = &s->worker[worker];

    if (w->phase == COMPUTING)
        w->computed_ps += s->now_ps - w->begin_ps;
    tutti_cards_drop(&s->cards, worker);
    s->changed = true;
    w->phase = phase;
    w->end_ps = INT64_MAX;
}

/* ---- the coordinator --------------------------------------------------------------------------
 */

static void note_half(struct servers *s, uint64_t step)
{
    if (s->half_ps == 0 && step >= s->opts.params.first_step +
                                       (s->opts.params.last_step - s->opts.params.first_step) / 2) {
        s->half_ps = s->now_ps;
        s->half_step = step;
        s->half_applied = tutti_coordinator_stats(s->coordinator)->applied;
    }
}

static void feed(struct servers *s, enum tutti_coord_event_kind kind, uint32_t worker)
{
    const struct tutti_coord_member *member = tutti_coordinator_member(s->coordinator, worker);
    struct tutti_coord_event event = {kind, worker, member->incarnation, member->episode, 0};
    uint32_t count;
    const struct tutti_coord_action *action =
        tutti_coordinator_event(s->coordinator, &event, &count);

    for (uint32_t i = 0; i < count; i++, action++)
        switch (action->kind) {
        case TUTTI_ACTION_START:
            s->worker[action->member].begin_ps = s->now_ps;
            transfer(s, action->member, PULLING);
            break;
        case TUTTI_ACTION_ABORT:
            stop(s, action->member, IDLE);
            break;
        case TUTTI_ACTION_FINISH:
            s->finished = true;
            break;
        default:
            break;
        }
    note_half(s, tutti_coordinator_step(s->coordinator));
}

static tutti_ps life_ps(struct servers *s)
{
    double life;

    if (s->opts.mtbf_ps == 0)
        return INT64_MAX;
    life = -log(1 - tutti_random_unit(&s->random)) * (double)s->opts.mtbf_ps;
    return life < 4e18 ? s->now_ps + (tutti_ps)life + 1 : INT64_MAX;
}

static void fail(struct servers *s, uint32_t worker)
{
    struct worker *w = &s->worker[worker];

    if (w->phase == AWAY) {
        w->phase = IDLE;
        w->lost_ps = life_ps(s);
        feed(s, TUTTI_EVENT_JOINED, worker);
        return;
    }
    s->failures++;
    stop(s, worker, AWAY);
    w->has_weights = false;
    w->lost_ps = s->now_ps + s->opts.restart_ps;
    feed(s, TUTTI_EVENT_LOST, worker);
}

/* ---- the loop ---------------------------------------------------------------------------------
 */

/* When the next thing happens; INT64_MAX: nothing does. */
static tutti_ps next_ps(const struct servers *s)
{
    tutti_ps next = tutti_cards_next(&s->cards);

    next = next == INT64_MAX ? next : s->now_ps + next;
    for (uint32_t i = 0; i < worker_count(s); i++) {
        const struct worker *w = &s->worker[i];

        next = w->end_ps < next ? w->end_ps : next;
        next = w->lost_ps < next ? w->lost_ps : next;
    }
    return next;
}

/* Of a worker whose transfers have all ended, the latency is left. */
static void end_transfers(struct servers *s)
{
    for (uint32_t i = 0; i < worker_count(s); i++)
        s->worker[i].transfers = 0;
    for (uint32_t i = 0; i < s->cards.flow_count; i++)
        s->worker[s->cards.flow[i].worker].transfers += s->cards.flow[i].left_bytes > 0;
    for (uint32_t i = 0; i < worker_count(s); i++) {
        struct worker *w = &s->worker[i];

        if (w->end_ps != INT64_MAX || w->transfers > 0 ||
            (w->phase != PULLING && w->phase != PUSHING))
            continue;
        tutti_cards_drop(&s->cards, i);
        w->phase = w->phase == PULLING ? PULLED : PUSHED;
        w->end_ps = s->now_ps + s->opts.latency_ps;
    }
}

/* All that happens at the same time; a worker goes on by one phase. */
static void happen(struct servers *s)
{
    for (uint32_t i = 0; i < worker_count(s) && !s->finished; i++) {
        if (s->worker[i].end_ps <= s->now_ps)
            go_on(s, i);
        if (s->worker[i].lost_ps <= s->now_ps && !s->finished)
            fail(s, i);
    }
}

static int run(struct servers *s, struct tutti_err *err)
{
    for (uint32_t i = 0; i < worker_count(s); i++) {
        s->worker[i].phase = IDLE;
        s->worker[i].end_ps = INT64_MAX;
        s->worker[i].lost_ps = life_ps(s);
    }
    for (uint32_t i = 0; i < worker_count(s); i++)
        feed(s, TUTTI_EVENT_JOINED, i);
    while (!s->finished) {
        tutti_ps next;

        if (s->changed)
            tutti_cards_share(&s->cards);
        next = next_ps(s);
        if (next == INT64_MAX)
            return tutti_fail(err, TUTTI_ECHECK, "nobody goes on at step %llu",
                              (unsigned long long)tutti_coordinator_step(s->coordinator));
        assert(next >= s->now_ps); /* time never runs back */
        s->changed = tutti_cards_advance(&s->cards, next - s->now_ps);
        s->now_ps = next;
        if (s->changed)
            end_transfers(s);
        happen(s);
    }
    return 0;
}

static int check(const struct tutti_servers_opts *opts, struct tutti_err *err)
{
    if (opts->ops == NULL || opts->server_count == 0 || opts->server_bytes == NULL ||
        opts->params.last_step <= opts->params.first_step || opts->compute_ps < 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "parameter servers need a coordinator, a server and a last step");
    if (opts->host_count == 0 || opts->host_count > TUTTI_SERVERS_HOSTS_MAX ||
        opts->host_bytes_per_s == 0)
        return tutti_fail(err, TUTTI_EINVAL, "'%u' hosts (1 to %d, with a network card each)",
                          opts->host_count, TUTTI_SERVERS_HOSTS_MAX);
    if (tutti_times(opts->params.member_count, opts->server_count) > TUTTI_SERVERS_FLOWS_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "'%u' workers by %u servers (at most %d together)",
                          opts->params.member_count, opts->server_count, TUTTI_SERVERS_FLOWS_MAX);
    for (uint32_t i = 0; i < opts->params.member_count; i++)
        if ((opts->worker_host == NULL ? i : opts->worker_host[i]) >= opts->host_count)
            return tutti_fail(err, TUTTI_EINVAL, "worker %u has no host among '%u'", i,
                              opts->host_count);
    for (uint32_t i = 0; i < opts->server_count; i++)
        if ((opts->server_host == NULL ? tutti_plus(opts->params.member_count, i)
                                       : opts->server_host[i]) >= opts->host_count)
            return tutti_fail(err, TUTTI_EINVAL, "server %u has no host among '%u'", i,
                              opts->host_count);
    return 0;
}

static int set_up(struct servers *s, struct tutti_arena *arena, struct tutti_err *err)
{
    uint32_t workers = worker_count(s);

    s->worker = tutti_arena_take(arena, workers, sizeof(*s->worker));
    s->host_bytes = tutti_arena_take(arena, s->opts.host_count, sizeof(*s->host_bytes));
    s->host_free_ps = tutti_arena_take(arena, s->opts.host_count, sizeof(*s->host_free_ps));
    if (s->worker == NULL || s->host_bytes == NULL || s->host_free_ps == NULL ||
        tutti_cards_init(&s->cards, arena, s->opts.host_count, s->opts.host_bytes_per_s,
                         workers * s->opts.server_count) < 0)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < s->opts.server_count; i++)
        s->host_bytes[s->opts.server_host == NULL ? workers + i : s->opts.server_host[i]] +=
            s->opts.server_bytes[i];
    tutti_random_seed(&s->random, s->opts.seed);
    return tutti_coordinator_new(s->opts.ops, &s->opts.params, &s->coordinator, err);
}

static void tell(const struct servers *s, struct tutti_served *ret)
{
    const struct tutti_coordinator_stats *stats = tutti_coordinator_stats(s->coordinator);
    uint64_t step = tutti_coordinator_step(s->coordinator);
    double total = (double)(s->now_ps > 0 ? s->now_ps : 1);
    double half = (double)(s->now_ps - s->half_ps);
    double computed = 0;
    double most = 0;

    for (uint32_t i = 0; i < worker_count(s); i++)
        computed += (double)s->worker[i].computed_ps;
    for (uint32_t i = 0; i < 2 * s->opts.host_count; i++)
        most = fmax(most, s->cards.used_bytes[i]);
    *ret = (struct tutti_served){
        .total_ps = s->now_ps,
        .step_ps =
            step > s->half_step ? (tutti_ps)llround(half / (double)(step - s->half_step)) : 0,
        .steps = step - s->opts.params.first_step,
        .gradients_per_s = half > 0 ? (double)(stats->applied - s->half_applied) * 1e12 / half : 0,
        .computing = computed / total / worker_count(s),
        .busiest_card = most / ((double)s->opts.host_bytes_per_s * total / 1e12),
        .failures = s->failures,
        .stats = *stats,
    };
}

int tutti_servers_play(const struct tutti_servers_opts *opts, struct tutti_served *ret,
                       struct tutti_err *err)
{
    struct servers s = {.now_ps = 0};
    struct tutti_arena *arena;
    int status = tutti_take("tutti_servers_opts", &s.opts, sizeof(s.opts), opts,
                            TUTTI_BYTES_TO(struct tutti_servers_opts, relaxed), err);

    if (status == 0)
        status = check(&s.opts, err);
    if (status < 0)
        return status;
    arena = tutti_arena_new();
    status = arena == NULL ? tutti_nomem(err) : set_up(&s, arena, err);
    if (status == 0)
        status = run(&s, err);
    if (status == 0)
        tell(&s, ret);
    tutti_coordinator_free(s.coordinator);
    tutti_arena_free(arena);
    return status;
}

int tutti_servers_exchange(const struct tutti_servers_opts *opts, tutti_ps *ret_ps,
                           struct tutti_err *err)
{
    struct servers s = {.now_ps = 0};
    struct tutti_arena *arena;
    uint64_t most = 0;
    int status = tutti_take("tutti_servers_opts", &s.opts, sizeof(s.opts), opts,
                            TUTTI_BYTES_TO(struct tutti_servers_opts, relaxed), err);

    if (status == 0)
        status = check(&s.opts, err);
    if (status < 0)
        return status;
    arena = tutti_arena_new();
    status = arena == NULL ? tutti_nomem(err) : set_up(&s, arena, err);
    for (uint32_t host = 0; status == 0 && host < s.opts.host_count; host++) {
        uint64_t all = 0;
        uint64_t workers = 0; /* on this host */
        uint64_t bytes;       /* each way: what is pushed one way is pulled the other */

        for (uint32_t i = 0; i < s.opts.host_count; i++)
            all = tutti_plus(all, s.host_bytes[i]);
        for (uint32_t i = 0; i < worker_count(&s); i++)
            workers += host_of(&s, i) == host;
        bytes = tutti_plus(tutti_times(workers, all - s.host_bytes[host]),
                           tutti_times(worker_count(&s) - workers, s.host_bytes[host]));
        most = bytes > most ? bytes : most;
    }
    if (status == 0)
        *ret_ps = tutti_wire_ps(most, s.opts.host_bytes_per_s);
    tutti_coordinator_free(s.coordinator);
    tutti_arena_free(arena);
    return status;
}
