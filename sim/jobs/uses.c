/* What a collective of a job takes alone, and asks of links; see fluid.h. */
#include <stdlib.h>
#include <string.h>

#include "runtime/schedule.h"
#include "runtime/status.h"
#include "sim/jobs/fluid.h"
#include "sim/sim.h"

enum { ROUTE_MAX = 64 };

struct sent {
    uint32_t from;
    uint32_t to;
    uint64_t bytes;
};

static int by_pair(const void *a, const void *b)
{
    const struct sent *x = a, *y = b;

    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return (x->to > y->to) - (x->to < y->to);
}

/* What each rank sends to each other, of a schedule that is laid out: *ret[*ret_count]. */
static int count_sent(const struct tutti_schedule *s, struct sent **ret, size_t *ret_count,
                      struct tutti_err *err)
{
    struct sent *sent = NULL;
    size_t count = 0, capacity = 0;

    for (uint32_t rank = 0; rank < s->rank_count; rank++) {
        const size_t first = count;

        for (uint32_t lane = 0; lane < s->lane_count; lane++) {
            struct tutti_cursor cursor;
            const struct tutti_step *step;

            tutti_cursor_open(&cursor, s, rank, lane);
            while ((step = tutti_cursor_next(&cursor)) != NULL) {
                size_t at = first;

                if (step->kind != TUTTI_SEND)
                    continue;
                while (at < count && sent[at].to != step->peer)
                    at++;
                if (at == capacity) {
                    size_t larger = 2 * capacity + 64;
                    struct sent *grown = realloc(sent, larger * sizeof(*sent));

                    if (grown == NULL) {
                        free(sent);
                        return tutti_nomem(err);
                    }
                    sent = grown;
                    capacity = larger;
                }
                if (at == count)
                    sent[count++] = (struct sent){rank, step->peer, 0};
                sent[at].bytes += step->bytes;
            }
        }
    }
    if (count > 0)
        qsort(sent, count, sizeof(*sent), by_pair);
    *ret = sent;
    *ret_count = count;
    return 0;
}

static int by_link(const void *a, const void *b)
{
    const struct tutti_job_use *x = a, *y = b;

    return (x->link > y->link) - (x->link < y->link);
}

/* One use for each link on the routes. */
static int find_uses(const struct tutti_topo *topo, const struct sent *sent, size_t sent_count,
                     struct tutti_job_call *ret, struct tutti_err *err)
{
    const double alone_s = (double)ret->alone_ps / 1e12;
    struct tutti_job_use *uses;
    size_t count = 0, kept = 0, room = 1;

    for (size_t i = 0; i < sent_count; i++)
        room += tutti_topo_route(topo, sent[i].from, sent[i].to, NULL, 0);
    uses = calloc(room, sizeof(*uses));

    if (uses == NULL)
        return tutti_nomem(err);
    for (size_t i = 0; i < sent_count; i++) {
        uint32_t links[ROUTE_MAX];
        uint32_t length = tutti_topo_route(topo, sent[i].from, sent[i].to, links, ROUTE_MAX);

        for (uint32_t k = 0; k < length && k < ROUTE_MAX && sent[i].bytes > 0; k++)
            uses[count++] = (struct tutti_job_use){links[k], 1, 0, (double)sent[i].bytes / alone_s};
    }
    qsort(uses, count, sizeof(*uses), by_link);
    for (size_t i = 0; i < count; i++)
        if (kept > 0 && uses[kept - 1].link == uses[i].link) {
            uses[kept - 1].flows++;
            uses[kept - 1].rate += uses[i].rate;
        } else {
            uses[kept++] = uses[i];
        }
    for (size_t i = 0; i < kept; i++) {
        const double rate = (double)tutti_topo_link_figures(topo, uses[i].link).bytes_per_s;

        uses[i].share = uses[i].rate < rate ? uses[i].rate / rate : 1;
    }
    ret->uses = uses;
    ret->use_count = (uint32_t)kept;
    return 0;
}

static int play(const struct tutti_jobs_opts *opts, const struct tutti_schedule *schedule,
                tutti_ps *ret, struct tutti_err *err)
{
    const struct tutti_sim_opts sim = {.size = sizeof(sim),
                                       .topo = opts->topo,
                                       .model = TUTTI_MODEL_FAIR,
                                       .seconds_max = opts->seconds_max};
    const struct tutti_play wish = {
        .size = sizeof(wish), .schedule = schedule, .iteration_count = 1};
    struct tutti_played played = {.total_ps = 0};
    struct tutti_backend *backend = NULL;
    int status = tutti_sim_open(&sim, &backend, err);

    if (status == 0)
        status = tutti_backend_play(backend, &wish, &played, err);
    tutti_backend_close(backend);
    *ret = played.total_ps;
    return status;
}

int tutti_job_call_of(const struct tutti_jobs_opts *opts, const struct tutti_job_on_ranks *job,
                      uint32_t callee, uint32_t axis, struct tutti_job_call *ret,
                      struct tutti_err *err)
{
    const struct tutti_axis groups = tutti_schedule_axis(job->step, axis);
    struct tutti_schedule *spread = NULL, *alone = NULL;
    struct sent *sent = NULL;
    size_t sent_count = 0;
    int status = tutti_schedule_on_axis(job->step->callees[callee], &groups, job->step->rank_count,
                                        &spread, err);

    *ret = (struct tutti_job_call){.uses = NULL};
    if (status == 0)
        status = tutti_job_rails(opts->topo, spread, job->ranks, opts->rails, &alone, err);
    if (status == 0)
        status = play(opts, alone, &ret->alone_ps, err);
    if (status == 0 && ret->alone_ps > 0)
        status = count_sent(alone, &sent, &sent_count, err);
    if (status == 0)
        status = find_uses(opts->topo, sent, sent_count, ret, err);
    free(sent);
    tutti_schedule_free(alone);
    tutti_schedule_free(spread);
    return status;
}

/* ---- rates ----------------------------------------------------------------------------------- */

/* The most that a call can do where the others that wait take no more for each flow. */
static double most(const struct tutti_job_links *links, const struct tutti_job_call *call)
{
    double rate = 1;

    for (uint32_t i = 0; i < call->use_count; i++) {
        const struct tutti_job_use *u = &call->uses[i];
        const double fair = links->free[u->link] * u->flows / links->waiting[u->link];

        if (rate * u->share > fair)
            rate = fair / u->share;
    }
    return rate;
}

static void settle(struct tutti_job_links *links, const struct tutti_job_call *call, double rate)
{
    for (uint32_t i = 0; i < call->use_count; i++) {
        const struct tutti_job_use *u = &call->uses[i];

        links->waiting[u->link] -= u->flows;
        links->free[u->link] -= rate * u->share;
        if (links->free[u->link] < 0)
            links->free[u->link] = 0;
    }
}

/* Progressive filling: whoever asks for no more than its part has it; of the others the one that
 * gets the least of its full rate is limited for good, and what it leaves is shared on. */
void tutti_job_rates(struct tutti_job_links *links, const struct tutti_job_call *const *calls,
                     uint32_t count, double *rates)
{
    uint32_t left = count;

    for (uint32_t c = 0; c < count; c++) {
        rates[c] = -1;
        for (uint32_t i = 0; i < calls[c]->use_count; i++) {
            links->free[calls[c]->uses[i].link] = 1;
            links->waiting[calls[c]->uses[i].link] = 0;
        }
    }
    for (uint32_t c = 0; c < count; c++)
        for (uint32_t i = 0; i < calls[c]->use_count; i++)
            links->waiting[calls[c]->uses[i].link] += calls[c]->uses[i].flows;
    while (left > 0) {
        double least = 2;
        uint32_t slowest = UINT32_MAX;

        for (uint32_t c = 0; c < count; c++) {
            double rate;

            if (rates[c] >= 0)
                continue;
            rate = most(links, calls[c]);
            if (rate >= 1) {
                slowest = c;
                least = 1;
                break;
            }
            if (rate < least) {
                least = rate;
                slowest = c;
            }
        }
        rates[slowest] = least;
        settle(links, calls[slowest], least);
        left--;
    }
}
