/* All rings of a phase; see phase.h. Rings of wide strides lie side by side: some are taken at a
 * time, so that memory is read in order. */
#include "sim/fold/phase.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/fold/rings.h"
#include "sim/net/net.h"
#include "sim/sim.h"
#include "topo/topo.h"

enum { BLOCK_MAX = 16, BLOCK_RANKS = 1 << 15 };

/* ---- the context --------------------------------------------------------------------------------
 */

int tutti_phase_context_init(struct tutti_phase_context *context, const struct tutti_sim_opts *opts,
                             const struct tutti_schedule *schedule, const struct tutti_hops *hops,
                             uint32_t size_max, struct tutti_err *err)
{
    size_t block = BLOCK_RANKS / size_max;
    size_t room;

    block = block < 1 ? 1 : block > BLOCK_MAX ? BLOCK_MAX : block;
    room = block * size_max;
    context->opts = opts;
    context->hops = hops;
    context->rank_count = schedule->rank_count;
    context->slot_count = schedule->slot_count;
    context->block = (uint32_t)block;
    context->busy_ps = calloc((size_t)hops->kind_count + 1, sizeof(*context->busy_ps));
    context->hop_ps = calloc((size_t)hops->kind_count + 1, sizeof(*context->hop_ps));
    context->bases = calloc(block, sizeof(*context->bases));
    context->ready_ps = calloc(room, sizeof(*context->ready_ps));
    context->finish_ps = calloc(room, sizeof(*context->finish_ps));
    context->together_ps = calloc(block, sizeof(*context->together_ps));
    context->kinds = calloc(room, sizeof(*context->kinds));
    context->ring_busy_ps = calloc(size_max, sizeof(*context->ring_busy_ps));
    context->ring_hop_ps = calloc(size_max, sizeof(*context->ring_hop_ps));
    if (context->busy_ps == NULL || context->hop_ps == NULL || context->bases == NULL ||
        context->ready_ps == NULL || context->finish_ps == NULL || context->together_ps == NULL ||
        context->kinds == NULL || context->ring_busy_ps == NULL || context->ring_hop_ps == NULL)
        return tutti_nomem(err);
    return 0;
}

int tutti_phase_compare_links(struct tutti_phase_context *context, struct tutti_err *err)
{
    uint32_t link_count = context->opts->topo->link_count;

    context->free_ps = calloc((size_t)link_count + 1, sizeof(*context->free_ps));
    context->users = calloc((size_t)link_count + 1, sizeof(*context->users));
    if (context->free_ps == NULL || context->users == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < link_count; i++)
        context->free_ps[i] = -1; /* nothing was sent yet */
    return 0;
}

void tutti_phase_give_back(struct tutti_phase_context *context, struct tutti_rank_times *times)
{
    if (times->each_ps != NULL && context->spare_count < SPARES_MAX)
        context->spare_ps[context->spare_count++] = times->each_ps;
    else
        free(times->each_ps);
    times->each_ps = NULL;
}

static tutti_ps *take_times(struct tutti_phase_context *context)
{
    if (context->spare_count > 0)
        return context->spare_ps[--context->spare_count];
    return malloc(context->rank_count * sizeof(tutti_ps));
}

void tutti_phase_context_done(struct tutti_phase_context *context)
{
    free(context->free_ps);
    free(context->users);
    free(context->busy_ps);
    free(context->hop_ps);
    free(context->bases);
    free(context->ready_ps);
    free(context->finish_ps);
    free(context->together_ps);
    free(context->kinds);
    free(context->ring_busy_ps);
    free(context->ring_hop_ps);
    tutti_ring_context_done(&context->ring_context);
    tutti_ring_memo_done(&context->memo);
    for (uint32_t i = 0; i < context->spare_count; i++)
        free(context->spare_ps[i]);
    *context = (struct tutti_phase_context){.opts = NULL};
}

static tutti_ps reduce_ps_of(const struct tutti_phase_context *context,
                             const struct tutti_ring_phase *phase)
{
    uint64_t rate = context->opts->reduce_bytes_per_s;

    return rate > 0 && phase->reduce_count > 0 ? tutti_wire_ps(phase->bytes, rate) : 0;
}

/* What a message of this phase takes on each kind of hop. */
static void weigh_kinds(struct tutti_phase_context *context, uint64_t bytes)
{
    for (uint32_t i = 0; i < context->hops->kind_count; i++) {
        const struct tutti_route_weight *kind = &context->hops->kinds[i];

        context->busy_ps[i] = tutti_hop_busy_ps(context->opts, kind->pace, bytes);
        context->hop_ps[i] = tutti_add_ps(context->busy_ps[i], kind->latency_ps);
    }
}

/* No sum that is formed comes near the end of the clock. */
static bool is_long(const struct tutti_phase_context *context, const struct tutti_phase_ask *ask)
{
    const struct tutti_ring_phase *phase = ask->phase;
    uint64_t most = tutti_times((uint64_t)reduce_ps_of(context, phase), phase->transfer_count);
    uint64_t hops = phase->transfer_count + 2 * (uint64_t)phase->size;
    tutti_ps hop_ps = 0;
    tutti_ps ready_ps = ask->ready->last_ps;

    for (uint32_t i = 0; i < context->hops->kind_count; i++)
        hop_ps = tutti_later_ps(hop_ps, context->hop_ps[i]);
    if (ask->turn != NULL)
        ready_ps = tutti_later_ps(ready_ps, ask->turn->last_ps);
    most = tutti_plus(most, tutti_times((uint64_t)hop_ps, hops));
    most = tutti_plus(most, (uint64_t)ready_ps);
    return tutti_times(most, context->slot_count) > INT64_MAX / 4;
}

/* ---- one ring -------------------------------------------------------------------------------- */

/* When all ranks of a ring begin, less which they begin at 0 or later; returns whether they begin
 * together. */
static bool settle_ready(tutti_ps *ready_ps, uint32_t size, tutti_ps *ret_first_ps)
{
    tutti_ps first_ps = ready_ps[0];
    bool together = true;

    for (uint32_t i = 1; i < size; i++) {
        together &= ready_ps[i] == ready_ps[0];
        first_ps = ready_ps[i] < first_ps ? ready_ps[i] : first_ps;
    }
    *ret_first_ps = first_ps;
    if (!together) {
        for (uint32_t i = 0; i < size; i++)
            ready_ps[i] -= first_ps;
    }
    return together;
}

static bool are_of_a_kind(const uint32_t *kinds, uint32_t size)
{
    bool same = true;

    for (uint32_t i = 1; i < size; i++)
        same &= kinds[i] == kinds[0];
    return same;
}

/* Looks up what the hops of a ring weigh; returns whether it is the same. */
static bool weigh_hops(struct tutti_phase_context *context, const uint32_t *kinds, uint32_t size)
{
    bool alike = true;

    for (uint32_t i = 0; i < size; i++) {
        context->ring_busy_ps[i] = context->busy_ps[kinds[i]];
        context->ring_hop_ps[i] = context->hop_ps[kinds[i]];
        alike &= context->ring_busy_ps[i] == context->ring_busy_ps[0] &&
                 context->ring_hop_ps[i] == context->ring_hop_ps[0];
    }
    return alike;
}

/* Finds when the ranks of a ring finish, if the first begins at 0. */
static int run_ring(struct tutti_phase_context *context, const struct tutti_ring_key *key,
                    bool only_last, tutti_ps *finish_ps, struct tutti_err *err)
{
    const struct tutti_ring_phase *phase = key->phase;
    struct tutti_ring ring = {
        .size = phase->size,
        .slot_count = context->slot_count,
        .round_count = phase->transfer_count,
        .reduce_count = phase->reduce_count,
        .reduce_ps = reduce_ps_of(context, phase),
        .only_last = only_last,
        .links_alike = weigh_hops(context, key->kinds, phase->size),
        .busy_ps = context->ring_busy_ps,
        .hop_ps = context->ring_hop_ps,
        .ready_ps = key->ready_ps,
        .finish_ps = finish_ps,
    };

    context->simulated_count += phase->size;
    return tutti_ring_run(&context->ring_context, &ring, context->update_count_max, err);
}

static void note_finish(struct tutti_phase_context *context, tutti_ps finish_ps)
{
    context->first_ps = finish_ps < context->first_ps ? finish_ps : context->first_ps;
    context->last_ps = tutti_later_ps(context->last_ps, finish_ps);
}

/* The same with a look at what is known. `number` is that of the ring in the block. */
static int play_ring(struct tutti_phase_context *context, const struct tutti_phase_ask *ask,
                     uint32_t number, struct tutti_err *err)
{
    const struct tutti_ring_phase *phase = ask->phase;
    size_t first = (size_t)number * phase->size;
    tutti_ps *finish_ps = context->finish_ps + first;
    struct tutti_ring_key key = {
        .phase = phase, .kinds = context->kinds + first, .ready_ps = context->ready_ps + first};
    const tutti_ps *known = NULL;
    tutti_ps begin_ps;
    bool together = settle_ready(context->ready_ps + first, phase->size, &begin_ps);
    bool several = phase->size < context->rank_count;
    int status = 0;

    if (together && are_of_a_kind(key.kinds, phase->size)) {
        begin_ps += tutti_ring_alike_ps(phase->transfer_count, context->hop_ps[key.kinds[0]],
                                        phase->reduce_count, reduce_ps_of(context, phase));
        context->together_ps[number] = begin_ps;
        context->is_alike = true;
        note_finish(context, begin_ps);
        return 0;
    }
    context->together_ps[number] = -1;
    if (together) {
        for (uint32_t i = 0; i < phase->size; i++)
            context->ready_ps[first + i] = 0;
    }
    if (several)
        known = tutti_ring_memo_find(&context->memo, &key);
    if (known == NULL)
        status = run_ring(context, &key, ask->is_last && !several, finish_ps, err);
    if (known == NULL && several && status == 0 &&
        tutti_ring_memo_keep(&context->memo, &key, finish_ps) < 0)
        status = tutti_nomem(err);
    for (uint32_t i = 0; i < phase->size && status == 0; i++) {
        finish_ps[i] = begin_ps + (known != NULL ? known[i] : finish_ps[i]);
        note_finish(context, finish_ps[i]);
    }
    return status;
}

/* ---- links that serve several phases --------------------------------------------------------- */

/* The links of a hop. */
struct span {
    const uint32_t *links;
    uint32_t count;
};

static struct span links_of(const struct tutti_hop_family *family, uint32_t rank)
{
    assert(family->links != NULL);
    if (family->link_first == NULL)
        return (struct span){.links = family->links + rank, .count = 1};
    return (struct span){.links = family->links + family->link_first[rank],
                         .count = family->link_first[rank + 1] - family->link_first[rank]};
}

/* The links of a hop must be free when its rank is ready, and some time before if another lane
 * used them: what lanes do at the same instant comes in any order. */
static int check_hop(const struct tutti_phase_context *context, const struct tutti_phase_ask *ask,
                     uint32_t rank, tutti_ps ready_ps, struct tutti_err *err)
{
    struct span span = links_of(&context->hops->families[ask->family], rank);

    for (uint32_t i = 0; i < span.count; i++) {
        uint32_t link = span.links[i];

        if (context->free_ps[link] > ready_ps ||
            (context->free_ps[link] == ready_ps && context->users[link] != ask->lane))
            return tutti_fail(err, TUTTI_ELACK,
                              "rank %" PRIu32 " sends over a link that still serves another phase",
                              rank);
    }
    return 0;
}

/* Under alphabeta a link is free when it has sent, under fair when all has arrived. */
static void occupy(const struct tutti_phase_context *context, const struct tutti_phase_ask *ask,
                   uint32_t rank, uint32_t kind, tutti_ps taken_ps)
{
    struct span span = links_of(&context->hops->families[ask->family], rank);

    if (context->opts->model != TUTTI_MODEL_FAIR)
        taken_ps -= context->hops->kinds[kind].latency_ps;
    for (uint32_t i = 0; i < span.count; i++) {
        context->free_ps[span.links[i]] = taken_ps;
        context->users[span.links[i]] = ask->lane;
    }
}

/* ---- all rings ------------------------------------------------------------------------------- */

/* Reads when the ranks of some rings begin, and the kinds of their hops, if they differ. Returns
 * whether, by then, all slots are free: the next rank has taken what was sent to it before. */
static bool gather(const struct tutti_phase_context *context, const struct tutti_phase_ask *ask,
                   uint32_t count)
{
    const struct tutti_ring_phase *phase = ask->phase;
    const struct tutti_hop_family *family = &context->hops->families[ask->family];
    uint32_t size = phase->size;
    bool is_free = true;

    for (uint32_t seat = 0; seat < size; seat++) {
        uint32_t rank = tutti_ring_rank(phase, 0, seat);
        uint32_t next = tutti_ring_rank(phase, 0, seat + 1 < size ? seat + 1 : 0);
        tutti_ps *ready_ps = context->ready_ps + seat;

        for (uint32_t i = 0; i < count && ask->ready->each_ps != NULL; i++)
            ready_ps[(size_t)i * size] = ask->ready->each_ps[context->bases[i] + rank];
        for (uint32_t i = 0; i < count && ask->ready->each_ps == NULL; i++)
            ready_ps[(size_t)i * size] = ask->ready->all_ps;
        for (uint32_t i = 0; i < count && ask->turn != NULL; i++)
            ready_ps[(size_t)i * size] = tutti_later_ps(
                ready_ps[(size_t)i * size], tutti_time_of(ask->turn, context->bases[i] + next));
        for (uint32_t i = 0; i < count && ask->slots != NULL; i++)
            is_free &=
                tutti_time_of(ask->slots, context->bases[i] + next) <= ready_ps[(size_t)i * size];
        for (uint32_t i = 0; i < count && family->kinds != NULL; i++)
            context->kinds[(size_t)i * size + seat] =
                context->hops->same[family->kinds[context->bases[i] + rank]];
    }
    return is_free;
}

/* Holds up links against what they have served so far; before the rings are played. */
static int check_block(const struct tutti_phase_context *context, const struct tutti_phase_ask *ask,
                       uint32_t count, struct tutti_err *err)
{
    uint32_t size = ask->phase->size;
    int status = 0;

    for (uint32_t i = 0; i < count && context->free_ps != NULL; i++) {
        for (uint32_t seat = 0; seat < size && status == 0; seat++)
            status = check_hop(context, ask, tutti_ring_rank(ask->phase, context->bases[i], seat),
                               context->ready_ps[(size_t)i * size + seat], err);
    }
    return status;
}

static tutti_ps finish_of(const struct tutti_phase_context *context, uint32_t size, uint32_t number,
                          uint32_t seat)
{
    return context->together_ps[number] >= 0 ? context->together_ps[number]
                                             : context->finish_ps[(size_t)number * size + seat];
}

static void occupy_block(const struct tutti_phase_context *context,
                         const struct tutti_phase_ask *ask, uint32_t count)
{
    uint32_t size = ask->phase->size;

    for (uint32_t i = 0; i < count && context->free_ps != NULL; i++) {
        for (uint32_t seat = 0; seat < size; seat++)
            occupy(context, ask, tutti_ring_rank(ask->phase, context->bases[i], seat),
                   context->kinds[(size_t)i * size + seat],
                   finish_of(context, size, i, seat + 1 < size ? seat + 1 : 0));
    }
}

static void scatter(const struct tutti_phase_context *context, const struct tutti_ring_phase *phase,
                    uint32_t count, tutti_ps *out_ps)
{
    for (uint32_t seat = 0; seat < phase->size; seat++) {
        uint32_t offset = tutti_ring_rank(phase, 0, seat);

        for (uint32_t i = 0; i < count; i++)
            out_ps[context->bases[i] + offset] = finish_of(context, phase->size, i, seat);
    }
}

static int play_rings(struct tutti_phase_context *context, const struct tutti_phase_ask *ask,
                      tutti_ps *out_ps, struct tutti_err *err)
{
    uint32_t ring_count = context->rank_count / ask->phase->size;
    uint32_t kind = context->hops->families[ask->family].kind;
    int status = 0;

    for (size_t i = 0; i < (size_t)context->block * ask->phase->size; i++)
        context->kinds[i] = kind;
    for (uint32_t ring = 0; ring < ring_count && status == 0; ring += context->block) {
        uint32_t count = ring_count - ring < context->block ? ring_count - ring : context->block;

        for (uint32_t i = 0; i < count; i++)
            context->bases[i] = tutti_ring_base(ask->phase, ring + i);
        if (!gather(context, ask, count))
            return tutti_fail(err, TUTTI_ELACK,
                              "a rank goes on before the next one has taken what an earlier phase "
                              "has sent to it");
        status = check_block(context, ask, count, err);
        for (uint32_t i = 0; i < count && status == 0; i++)
            status = play_ring(context, ask, i, err);
        if (status < 0)
            break;
        occupy_block(context, ask, count);
        scatter(context, ask->phase, count, out_ps);
    }
    return status;
}

/* All ranks begin together on hops of one kind, and nothing has to be compared; what was sent
 * before has been taken, as times of all ranks never run back. */
static bool is_plain(const struct tutti_phase_context *context, const struct tutti_phase_ask *ask)
{
    return ask->ready->each_ps == NULL && (ask->turn == NULL || ask->turn->each_ps == NULL) &&
           (ask->slots == NULL || ask->slots->each_ps == NULL) &&
           context->hops->families[ask->family].kinds == NULL && context->free_ps == NULL;
}

int tutti_phase_play(struct tutti_phase_context *context, const struct tutti_phase_ask *ask,
                     struct tutti_rank_times *ret, uint32_t *ret_simulated_count,
                     struct tutti_err *err)
{
    const struct tutti_ring_phase *phase = ask->phase;
    struct tutti_rank_times times = {.each_ps = NULL};
    int status;

    weigh_kinds(context, phase->bytes);
    context->simulated_count = 0;
    context->is_alike = false;
    context->first_ps = INT64_MAX;
    context->last_ps = 0;
    if (is_long(context, ask))
        return tutti_fail(err, TUTTI_ELACK, "its times are too long to be added up");
    if (is_plain(context, ask)) {
        uint32_t kind = context->hops->families[ask->family].kind;

        times.all_ps =
            tutti_later_ps(ask->ready->all_ps, ask->turn != NULL ? ask->turn->all_ps : 0) +
            tutti_ring_alike_ps(phase->transfer_count, context->hop_ps[kind], phase->reduce_count,
                                reduce_ps_of(context, phase));
        times.last_ps = times.all_ps;
        *ret_simulated_count = 1;
        *ret = times;
        return 0;
    }
    times.each_ps = take_times(context);
    if (times.each_ps == NULL)
        return tutti_nomem(err);
    status = play_rings(context, ask, times.each_ps, err);
    if (status < 0 || context->first_ps == context->last_ps)
        tutti_phase_give_back(context, &times);
    if (status < 0)
        return status;
    times.all_ps = times.last_ps = context->last_ps;
    *ret_simulated_count = context->simulated_count + (context->is_alike ? 1 : 0);
    *ret = times;
    return 0;
}
