/* Parameter servers in virtual time: one loop over what ends next. */
#include <assert.h>
#include <math.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/servers/play.h"

/* 26 days, and as many losses as take a second or some. */
static const tutti_ps FOREVER_PS = INT64_MAX / 4;
enum { FAILURES_MAX = 1000000 };

/* ---- the loop ---------------------------------------------------------------------------------
 */

/* When the next thing happens; INT64_MAX: nothing does, and checkpoints that are due change nothing
 * of that. */
static tutti_ps next_ps(const struct servers *s)
{
    tutti_ps next = tutti_cards_next(&s->cards);

    next = next == INT64_MAX ? next : s->now_ps + next;
    for (uint32_t i = 0; i <= servers_saver(s); i++)
        next = s->worker[i].end_ps < next ? s->worker[i].end_ps : next;
    for (uint32_t i = 0; i < servers_processes(s); i++)
        next = s->process[i].change_ps < next ? s->process[i].change_ps : next;
    return s->save_ps < next && next != INT64_MAX ? s->save_ps : next;
}

/* All that happens at the same time; a worker goes on by one phase. */
static void happen(struct servers *s)
{
    uint32_t workers = servers_workers(s);

    for (uint32_t i = 0; i < servers_processes(s) + 1 && !s->finished && s->status == 0; i++) {
        /* workers, the saver, servers */
        if (i <= workers && s->worker[i].end_ps <= s->now_ps)
            tutti_served_go_on(s, i);
        if (i != workers && !s->finished && s->status == 0)
            tutti_served_change(s, i < workers ? i : i - 1);
    }
    if (!s->finished && s->status == 0)
        tutti_served_save_due(s);
}

/* Who is waited for where nothing is under way and nobody is to come. */
static int stand_still(const struct servers *s, struct tutti_err *err)
{
    uint64_t step = tutti_served_step(s);

    for (uint32_t i = servers_processes(s); i-- > 0;)
        if (!s->process[i].is_present) {
            bool is_worker = i < servers_workers(s);

            return tutti_fail(err, TUTTI_ECHECK,
                              "training stands still at step %llu: %s %u is lost, and does not "
                              "come back",
                              (unsigned long long)step, is_worker ? "worker" : "server",
                              is_worker ? i : i - servers_workers(s));
        }
    return tutti_fail(err, TUTTI_ECHECK, "nobody goes on at step %llu", (unsigned long long)step);
}

static int run(struct servers *s, struct tutti_err *err)
{
    tutti_served_begin(s);
    while (!s->finished && s->status == 0) {
        tutti_ps next;

        if (s->changed)
            tutti_cards_share(&s->cards);
        next = next_ps(s);
        if (next == INT64_MAX)
            return stand_still(s, err);
        if (next > FOREVER_PS || s->failures > FAILURES_MAX)
            return tutti_fail(err, TUTTI_ECHECK,
                              "training fails more often than it gets on: step %llu after %llu "
                              "losses",
                              (unsigned long long)tutti_served_step(s),
                              (unsigned long long)s->failures);
        assert(next >= s->now_ps); /* time never runs back */
        s->changed = tutti_cards_advance(&s->cards, next - s->now_ps);
        s->now_ps = next;
        if (s->changed)
            tutti_served_end_transfers(s);
        happen(s);
    }
    return s->status;
}

int tutti_served_check(const struct tutti_servers_opts *opts, struct tutti_err *err)
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

static int check_changes(const struct tutti_servers_opts *opts, struct tutti_err *err)
{
    if (opts->change_count > 0 && opts->mtbf_ps > 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "losses are drawn, and listed as well ('%u' changes; one of both)",
                          opts->change_count);
    for (uint32_t i = 0; i < opts->change_count; i++) {
        const struct tutti_servers_change *c = &opts->changes[i];
        uint32_t count = c->is_server ? opts->server_count : opts->params.member_count;

        if (c->index >= count)
            return tutti_fail(err, TUTTI_EINVAL, "%s '%u' is lost, or comes, of %u (0 to %u)",
                              c->is_server ? "server" : "worker", c->index, count, count - 1);
        if (c->at_ps < 0 || (i > 0 && c->at_ps < c[-1].at_ps))
            return tutti_fail(err, TUTTI_EINVAL, "losses are not in the order of time");
        if (c->is_server && !opts->supervised)
            return tutti_fail(err, TUTTI_EINVAL,
                              "server '%u' is lost, and there is no checkpoint to go back to "
                              "(supervised: there is)",
                              c->index);
    }
    return 0;
}

void tutti_served_add_bytes(struct servers *s)
{
    const uint32_t workers = servers_workers(s);

    for (uint32_t i = 0; i < s->opts.server_count; i++)
        s->host_bytes[s->opts.server_host == NULL ? workers + i : s->opts.server_host[i]] +=
            s->opts.server_bytes[i];
    for (uint32_t i = 0; i < s->opts.server_count; i++)
        s->bytes = tutti_plus(s->bytes, s->opts.server_bytes[i]);
}

static int set_up(struct servers *s, struct tutti_arena *arena, struct tutti_err *err)
{
    uint32_t workers = servers_workers(s);

    s->worker = tutti_arena_take(arena, workers + 1, sizeof(*s->worker));
    s->process = tutti_arena_take(arena, servers_processes(s), sizeof(*s->process));
    s->host_busy_ps = tutti_arena_take(arena, s->opts.host_count, sizeof(*s->host_busy_ps));
    s->host_bytes = tutti_arena_take(arena, s->opts.host_count, sizeof(*s->host_bytes));
    s->host_free_ps = tutti_arena_take(arena, s->opts.host_count, sizeof(*s->host_free_ps));
    if (s->worker == NULL || s->process == NULL || s->host_busy_ps == NULL ||
        s->host_bytes == NULL || s->host_free_ps == NULL ||
        tutti_cards_init(&s->cards, arena, s->opts.host_count, s->opts.host_bytes_per_s,
                         (workers + 1) * s->opts.server_count) < 0)
        return tutti_nomem(err);
    tutti_served_add_bytes(s);
    tutti_random_seed(&s->random, s->opts.seed);
    return tutti_served_lead(s, err);
}

/* The part of their time that workers were in the phases from one to another, mean. */
static double part_of(const struct servers *s, enum phase first, enum phase last)
{
    double sum = 0;

    for (uint32_t i = 0; i < servers_workers(s); i++)
        for (enum phase phase = first; phase <= last; phase++)
            sum += (double)s->worker[i].spent_ps[phase];
    return sum / (double)(s->now_ps > 0 ? s->now_ps : 1) / servers_workers(s);
}

static void tell_waits(struct servers *s, struct tutti_served *ret)
{
    for (uint32_t i = 0; i < servers_workers(s); i++) /* what is under way */
        tutti_served_turn(s, i, s->worker[i].phase, s->worker[i].end_ps);
    ret->pulling = part_of(s, PULLING, PULLED);
    ret->pushing = part_of(s, PUSHING, PUSHED);
    ret->queued = part_of(s, TAKEN, TAKEN);
    ret->idle = part_of(s, IDLE, IDLE) + part_of(s, READING, SET);
    ret->away = part_of(s, AWAY, AWAY);
    for (uint32_t i = 0; i < s->opts.host_count; i++)
        ret->busiest_server =
            fmax(ret->busiest_server,
                 (double)s->host_busy_ps[i] / (double)(s->now_ps > 0 ? s->now_ps : 1));
}

static void tell(struct servers *s, struct tutti_served *ret)
{
    struct tutti_coordinator_stats stats = tutti_served_stats(s);
    uint64_t step = tutti_served_step(s);
    uint64_t first = s->half_ps > 0 ? s->half_step : s->opts.params.first_step;
    double total = (double)(s->now_ps > 0 ? s->now_ps : 1);
    double half = (double)(s->now_ps - s->half_ps);
    double computed = 0;
    double most = 0;

    for (uint32_t i = 0; i < servers_workers(s); i++)
        computed += (double)s->worker[i].computed_ps;
    for (uint32_t i = 0; i < 2 * s->opts.host_count; i++)
        most = fmax(most, s->cards.used_bytes[i]);
    *ret = (struct tutti_served){
        .total_ps = s->now_ps,
        .step_ps = step > first ? (tutti_ps)llround(half / (double)(step - first)) : 0,
        .steps = step - s->opts.params.first_step,
        .gradients_per_s = half > 0 ? (double)(stats.applied - s->half_applied) * 1e12 / half : 0,
        .computing = computed / total / servers_workers(s),
        .busiest_card = most / ((double)s->opts.host_bytes_per_s * total / 1e12),
        .failures = s->failures,
        .stats = stats,
        .checkpoints = s->checkpoints,
        .repeated_steps = s->repeated,
        .standing_ps = s->standing_ps,
    };
    tell_waits(s, ret);
}

int tutti_servers_play(const struct tutti_servers_opts *opts, struct tutti_served *ret,
                       struct tutti_err *err)
{
    struct servers s = {.now_ps = 0};
    struct tutti_arena *arena;
    int status = tutti_take("tutti_servers_opts", &s.opts, sizeof(s.opts), opts,
                            TUTTI_BYTES_TO(struct tutti_servers_opts, relaxed), err);

    if (status == 0)
        status = tutti_served_check(&s.opts, err);
    if (status == 0)
        status = check_changes(&s.opts, err);
    if (status < 0)
        return status;
    arena = tutti_arena_new();
    status = arena == NULL ? tutti_nomem(err) : set_up(&s, arena, err);
    if (status == 0)
        status = run(&s, err);
    if (status == 0)
        tell(&s, ret);
    tutti_coordinator_free(s.coordinator);
    tutti_coordinator_free(s.supervisor);
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
        status = tutti_served_check(&s.opts, err);
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
        for (uint32_t i = 0; i < servers_workers(&s); i++)
            workers += (s.opts.worker_host == NULL ? i : s.opts.worker_host[i]) == host;
        bytes = tutti_plus(tutti_times(workers, all - s.host_bytes[host]),
                           tutti_times(servers_workers(&s) - workers, s.host_bytes[host]));
        most = bytes > most ? bytes : most;
    }
    if (status == 0)
        *ret_ps = tutti_wire_ps(most, s.opts.host_bytes_per_s);
    tutti_coordinator_free(s.coordinator);
    tutti_coordinator_free(s.supervisor);
    tutti_arena_free(arena);
    return status;
}
