/* A worker's episode in virtual time: pull, compute, push; and the checkpoints of a chief. */
#include <assert.h>
#include <math.h>

#include "runtime/wide.h"
#include "sim/servers/play.h"

static uint32_t host_of(const struct servers *s, uint32_t worker)
{
    uint32_t index = worker == servers_saver(s) ? 0 : worker;

    return s->opts.worker_host == NULL ? index : s->opts.worker_host[index];
}

static tutti_ps time_of(uint64_t bytes, uint64_t bytes_per_s)
{
    return bytes_per_s == 0 ? 0 : tutti_wire_ps(bytes, bytes_per_s);
}

void tutti_served_turn(struct servers *s, uint32_t worker, enum phase phase, tutti_ps end_ps)
{
    struct worker *w = &s->worker[worker];

    w->spent_ps[w->phase] += s->now_ps - w->since_ps;
    w->since_ps = s->now_ps;
    w->phase = phase;
    w->end_ps = end_ps;
}

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

static enum phase after_transfers(enum phase phase)
{
    return phase == PULLING ? PULLED : phase == PUSHING ? PUSHED : SET;
}

/* With servers elsewhere by transfers, with those on the same host by itself. */
void tutti_served_transfer(struct servers *s, uint32_t worker, enum phase phase)
{
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
    tutti_served_turn(s, worker, phase, INT64_MAX);
    s->changed = true;
    if (s->cards.flow_count == before) /* all on its own host */
        tutti_served_turn(s, worker, after_transfers(phase),
                          s->now_ps + s->opts.latency_ps +
                              time_of(s->host_bytes[home], s->opts.local_bytes_per_s));
}

/* A gradient is at the servers, which take one after another. */
static tutti_ps taken_ps(struct servers *s)
{
    tutti_ps end = s->now_ps;

    for (uint32_t host = 0; s->opts.apply_bytes_per_s > 0 && host < s->opts.host_count; host++) {
        tutti_ps *free_ps = &s->host_free_ps[host];
        tutti_ps duration_ps = time_of(s->host_bytes[host], s->opts.apply_bytes_per_s);

        if (s->host_bytes[host] == 0)
            continue;
        *free_ps = *free_ps > s->now_ps ? *free_ps : s->now_ps;
        *free_ps += duration_ps;
        s->host_busy_ps[host] += duration_ps;
        end = *free_ps > end ? *free_ps : end;
    }
    return end;
}

void tutti_served_compute(struct servers *s, uint32_t worker)
{
    struct worker *w = &s->worker[worker];
    tutti_ps duration_ps = compute_ps(s, worker);

    if (!s->opts.relaxed || !w->has_weights)
        w->begin_ps = s->now_ps;
    else if (w->begin_ps + duration_ps < s->now_ps)
        w->begin_ps = s->now_ps - duration_ps; /* it was done before the pull was */
    w->has_weights = true;
    tutti_served_turn(s, worker, COMPUTING, w->begin_ps + duration_ps);
}

void tutti_served_go_on(struct servers *s, uint32_t worker)
{
    struct worker *w = &s->worker[worker];

    switch (w->phase) {
    case PULLED:
        if (worker == servers_saver(s))
            tutti_served_turn(s, worker, WRITING,
                              s->now_ps + time_of(s->bytes, s->opts.save_bytes_per_s));
        else
            tutti_served_compute(s, worker);
        break;
    case COMPUTING:
        w->computed_ps += w->end_ps - w->begin_ps;
        tutti_served_transfer(s, worker, PUSHING);
        break;
    case PUSHED:
        tutti_served_turn(s, worker, TAKEN, taken_ps(s));
        break;
    case READING:
        tutti_served_transfer(s, worker, SETTING);
        break;
    case SET:
        tutti_served_turn(s, worker, IDLE, INT64_MAX);
        tutti_served_set_up(s);
        break;
    case WRITING:
        tutti_served_turn(s, worker, IDLE, INT64_MAX);
        tutti_served_saved(s);
        break;
    default:
        assert(w->phase == TAKEN);
        tutti_served_turn(s, worker, IDLE, INT64_MAX);
        tutti_served_done(s, worker);
        break;
    }
}

void tutti_served_stop(struct servers *s, uint32_t worker, enum phase phase)
{
    struct worker *w = &s->worker[worker];

    if (w->phase == COMPUTING)
        w->computed_ps += s->now_ps - w->begin_ps;
    tutti_cards_drop(&s->cards, worker);
    s->changed = true;
    tutti_served_turn(s, worker, phase, INT64_MAX);
}

void tutti_served_end_transfers(struct servers *s)
{
    uint32_t count = servers_workers(s) + 1;

    for (uint32_t i = 0; i < count; i++)
        s->worker[i].transfers = 0;
    for (uint32_t i = 0; i < s->cards.flow_count; i++)
        s->worker[s->cards.flow[i].worker].transfers += s->cards.flow[i].left_bytes > 0;
    for (uint32_t i = 0; i < count; i++) {
        struct worker *w = &s->worker[i];

        if (w->end_ps != INT64_MAX || w->transfers > 0 ||
            (w->phase != PULLING && w->phase != PUSHING && w->phase != SETTING))
            continue;
        tutti_cards_drop(&s->cards, i);
        tutti_served_turn(s, i, after_transfers(w->phase), s->now_ps + s->opts.latency_ps);
    }
}
