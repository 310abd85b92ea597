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

/* ---- the desk -------------------------------------------------------------------------------- */

int tutti_phase_desk_init(struct tutti_phase_desk *desk, const struct tutti_sim_opts *opts,
                          const struct tutti_schedule *schedule, const struct tutti_hops *hops,
                          uint32_t size_max, struct tutti_err *err)
{
    size_t block = BLOCK_RANKS / size_max;
    size_t room;

    block = block < 1 ? 1 : block > BLOCK_MAX ? BLOCK_MAX : block;
    room = block * size_max;
    desk->opts = opts;
    desk->hops = hops;
    desk->rank_count = schedule->rank_count;
    desk->slot_count = schedule->slot_count;
    desk->block = (uint32_t)block;
    desk->busy_ps = calloc((size_t)hops->kind_count + 1, sizeof(*desk->busy_ps));
    desk->hop_ps = calloc((size_t)hops->kind_count + 1, sizeof(*desk->hop_ps));
    desk->bases = calloc(block, sizeof(*desk->bases));
    desk->ready_ps = calloc(room, sizeof(*desk->ready_ps));
    desk->finish_ps = calloc(room, sizeof(*desk->finish_ps));
    desk->together_ps = calloc(block, sizeof(*desk->together_ps));
    desk->kinds = calloc(room, sizeof(*desk->kinds));
    desk->ring_busy_ps = calloc(size_max, sizeof(*desk->ring_busy_ps));
    desk->ring_hop_ps = calloc(size_max, sizeof(*desk->ring_hop_ps));
    if (desk->busy_ps == NULL || desk->hop_ps == NULL || desk->bases == NULL ||
        desk->ready_ps == NULL || desk->finish_ps == NULL || desk->together_ps == NULL ||
        desk->kinds == NULL || desk->ring_busy_ps == NULL || desk->ring_hop_ps == NULL)
        return tutti_nomem(err);
    return 0;
}

int tutti_phase_compare_links(struct tutti_phase_desk *desk, struct tutti_err *err)
{
    uint32_t link_count = desk->opts->topo->link_count;

    desk->free_ps = calloc((size_t)link_count + 1, sizeof(*desk->free_ps));
    desk->users = calloc((size_t)link_count + 1, sizeof(*desk->users));
    if (desk->free_ps == NULL || desk->users == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < link_count; i++)
        desk->free_ps[i] = -1; /* nothing was sent yet */
    return 0;
}

void tutti_phase_give_back(struct tutti_phase_desk *desk, struct tutti_rank_times *times)
{
    if (times->each_ps != NULL && desk->spare_count < SPARES_MAX)
        desk->spare_ps[desk->spare_count++] = times->each_ps;
    else
        free(times->each_ps);
    times->each_ps = NULL;
}

static tutti_ps *take_times(struct tutti_phase_desk *desk)
{
    if (desk->spare_count > 0)
        return desk->spare_ps[--desk->spare_count];
    return malloc(desk->rank_count * sizeof(tutti_ps));
}

void tutti_phase_desk_done(struct tutti_phase_desk *desk)
{
    free(desk->free_ps);
    free(desk->users);
    free(desk->busy_ps);
    free(desk->hop_ps);
    free(desk->bases);
    free(desk->ready_ps);
    free(desk->finish_ps);
    free(desk->together_ps);
    free(desk->kinds);
    free(desk->ring_busy_ps);
    free(desk->ring_hop_ps);
    tutti_ring_desk_done(&desk->ring_desk);
    tutti_ring_memo_done(&desk->memo);
    for (uint32_t i = 0; i < desk->spare_count; i++)
        free(desk->spare_ps[i]);
    *desk = (struct tutti_phase_desk){.opts = NULL};
}

static tutti_ps reduce_ps_of(const struct tutti_phase_desk *desk,
                             const struct tutti_ring_phase *phase)
{
    uint64_t rate = desk->opts->reduce_bytes_per_s;

    return rate > 0 && phase->reduce_count > 0 ? tutti_wire_ps(phase->bytes, rate) : 0;
}

/* What a message of this phase takes on each kind of hop. */
static void weigh_kinds(struct tutti_phase_desk *desk, uint64_t bytes)
{
    for (uint32_t i = 0; i < desk->hops->kind_count; i++) {
        const struct tutti_route_weight *kind = &desk->hops->kinds[i];

        desk->busy_ps[i] = tutti_hop_busy_ps(desk->opts, kind->pace, bytes);
        desk->hop_ps[i] = tutti_add_ps(desk->busy_ps[i], kind->latency_ps);
    }
}

/* No sum that is formed comes near the end of the clock. */
static bool is_long(const struct tutti_phase_desk *desk, const struct tutti_phase_ask *ask)
{
    const struct tutti_ring_phase *phase = ask->phase;
    uint64_t most = tutti_times((uint64_t)reduce_ps_of(desk, phase), phase->transfer_count);
    uint64_t hops = phase->transfer_count + 2 * (uint64_t)phase->size;
    tutti_ps hop_ps = 0;
    tutti_ps ready_ps = ask->ready->last_ps;

    for (uint32_t i = 0; i < desk->hops->kind_count; i++)
        hop_ps = tutti_later_ps(hop_ps, desk->hop_ps[i]);
    if (ask->turn != NULL)
        ready_ps = tutti_later_ps(ready_ps, ask->turn->last_ps);
    most = tutti_plus(most, tutti_times((uint64_t)hop_ps, hops));
    most = tutti_plus(most, (uint64_t)ready_ps);
    return tutti_times(most, desk->slot_count) > INT64_MAX / 4;
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
static bool weigh_hops(struct tutti_phase_desk *desk, const uint32_t *kinds, uint32_t size)
{
    bool alike = true;

    for (uint32_t i = 0; i < size; i++) {
        desk->ring_busy_ps[i] = desk->busy_ps[kinds[i]];
        desk->ring_hop_ps[i] = desk->hop_ps[kinds[i]];
        alike &= desk->ring_busy_ps[i] == desk->ring_busy_ps[0] &&
                 desk->ring_hop_ps[i] == desk->ring_hop_ps[0];
    }
    return alike;
}

/* Finds when the ranks of a ring finish, if the first begins at 0. */
static int run_ring(struct tutti_phase_desk *desk, const struct tutti_ring_key *key, bool only_last,
                    tutti_ps *finish_ps, struct tutti_err *err)
{
    const struct tutti_ring_phase *phase = key->phase;
    struct tutti_ring ring = {
        .size = phase->size,
        .slot_count = desk->slot_count,
        .round_count = phase->transfer_count,
        .reduce_count = phase->reduce_count,
        .reduce_ps = reduce_ps_of(desk, phase),
        .only_last = only_last,
        .links_alike = weigh_hops(desk, key->kinds, phase->size),
        .busy_ps = desk->ring_busy_ps,
        .hop_ps = desk->ring_hop_ps,
        .ready_ps = key->ready_ps,
        .finish_ps = finish_ps,
    };

    desk->simulated_count += phase->size;
    return tutti_ring_run(&desk->ring_desk, &ring, desk->update_count_max, err);
}

static void note_finish(struct tutti_phase_desk *desk, tutti_ps finish_ps)
{
    desk->first_ps = finish_ps < desk->first_ps ? finish_ps : desk->first_ps;
    desk->last_ps = tutti_later_ps(desk->last_ps, finish_ps);
}

/* The same with a look at what is known. `number` is that of the ring in the block. */
static int play_ring(struct tutti_phase_desk *desk, const struct tutti_phase_ask *ask,
                     uint32_t number, struct tutti_err *err)
{
    const struct tutti_ring_phase *phase = ask->phase;
    size_t first = (size_t)number * phase->size;
    tutti_ps *finish_ps = desk->finish_ps + first;
    struct tutti_ring_key key = {
        .phase = phase, .kinds = desk->kinds + first, .ready_ps = desk->ready_ps + first};
    const tutti_ps *known = NULL;
    tutti_ps begin_ps;
    bool together = settle_ready(desk->ready_ps + first, phase->size, &begin_ps);
    bool several = phase->size < desk->rank_count;
    int status = 0;

    if (together && are_of_a_kind(key.kinds, phase->size)) {
        begin_ps += tutti_ring_alike_ps(phase->transfer_count, desk->hop_ps[key.kinds[0]],
                                        phase->reduce_count, reduce_ps_of(desk, phase));
        desk->together_ps[number] = begin_ps;
        desk->is_alike = true;
        note_finish(desk, begin_ps);
        return 0;
    }
    desk->together_ps[number] = -1;
    if (together) {
        for (uint32_t i = 0; i < phase->size; i++)
            desk->ready_ps[first + i] = 0;
    }
    if (several)
        known = tutti_ring_memo_find(&desk->memo, &key);
    if (known == NULL)
        status = run_ring(desk, &key, ask->is_last && !several, finish_ps, err);
    if (known == NULL && several && status == 0 &&
        tutti_ring_memo_keep(&desk->memo, &key, finish_ps) < 0)
        status = tutti_nomem(err);
    for (uint32_t i = 0; i < phase->size && status == 0; i++) {
        finish_ps[i] = begin_ps + (known != NULL ? known[i] : finish_ps[i]);
        note_finish(desk, finish_ps[i]);
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
static int check_hop(const struct tutti_phase_desk *desk, const struct tutti_phase_ask *ask,
                     uint32_t rank, tutti_ps ready_ps, struct tutti_err *err)
{
    struct span span = links_of(&desk->hops->families[ask->family], rank);

    for (uint32_t i = 0; i < span.count; i++) {
        uint32_t link = span.links[i];

        if (desk->free_ps[link] > ready_ps ||
            (desk->free_ps[link] == ready_ps && desk->users[link] != ask->lane))
            return tutti_fail(err, TUTTI_ELACK,
                              "rank %" PRIu32 " sends over a link that still serves another phase",
                              rank);
    }
    return 0;
}

/* Under alphabeta a link is free when it has sent, under fair when all has arrived. */
static void occupy(const struct tutti_phase_desk *desk, const struct tutti_phase_ask *ask,
                   uint32_t rank, uint32_t kind, tutti_ps taken_ps)
{
    struct span span = links_of(&desk->hops->families[ask->family], rank);

    if (desk->opts->model != TUTTI_MODEL_FAIR)
        taken_ps -= desk->hops->kinds[kind].latency_ps;
    for (uint32_t i = 0; i < span.count; i++) {
        desk->free_ps[span.links[i]] = taken_ps;
        desk->users[span.links[i]] = ask->lane;
    }
}

/* ---- all rings ------------------------------------------------------------------------------- */

/* Reads when the ranks of some rings begin, and the kinds of their hops, if they differ. Returns
 * whether, by then, all slots are free: the next rank has taken what was sent to it before. */
static bool gather(const struct tutti_phase_desk *desk, const struct tutti_phase_ask *ask,
                   uint32_t count)
{
    const struct tutti_ring_phase *phase = ask->phase;
    const struct tutti_hop_family *family = &desk->hops->families[ask->family];
    uint32_t size = phase->size;
    bool is_free = true;

    for (uint32_t seat = 0; seat < size; seat++) {
        uint32_t rank = tutti_ring_rank(phase, 0, seat);
        uint32_t next = tutti_ring_rank(phase, 0, seat + 1 < size ? seat + 1 : 0);
        tutti_ps *ready_ps = desk->ready_ps + seat;

        for (uint32_t i = 0; i < count && ask->ready->each_ps != NULL; i++)
            ready_ps[(size_t)i * size] = ask->ready->each_ps[desk->bases[i] + rank];
        for (uint32_t i = 0; i < count && ask->ready->each_ps == NULL; i++)
            ready_ps[(size_t)i * size] = ask->ready->all_ps;
        for (uint32_t i = 0; i < count && ask->turn != NULL; i++)
            ready_ps[(size_t)i * size] = tutti_later_ps(
                ready_ps[(size_t)i * size], tutti_time_of(ask->turn, desk->bases[i] + next));
        for (uint32_t i = 0; i < count && ask->slots != NULL; i++)
            is_free &=
                tutti_time_of(ask->slots, desk->bases[i] + next) <= ready_ps[(size_t)i * size];
        for (uint32_t i = 0; i < count && family->kinds != NULL; i++)
            desk->kinds[(size_t)i * size + seat] =
                desk->hops->same[family->kinds[desk->bases[i] + rank]];
    }
    return is_free;
}

/* Holds up links against what they have served so far; before the rings are played. */
static int check_block(const struct tutti_phase_desk *desk, const struct tutti_phase_ask *ask,
                       uint32_t count, struct tutti_err *err)
{
    uint32_t size = ask->phase->size;
    int status = 0;

    for (uint32_t i = 0; i < count && desk->free_ps != NULL; i++) {
        for (uint32_t seat = 0; seat < size && status == 0; seat++)
            status = check_hop(desk, ask, tutti_ring_rank(ask->phase, desk->bases[i], seat),
                               desk->ready_ps[(size_t)i * size + seat], err);
    }
    return status;
}

static tutti_ps finish_of(const struct tutti_phase_desk *desk, uint32_t size, uint32_t number,
                          uint32_t seat)
{
    return desk->together_ps[number] >= 0 ? desk->together_ps[number]
                                          : desk->finish_ps[(size_t)number * size + seat];
}

static void occupy_block(const struct tutti_phase_desk *desk, const struct tutti_phase_ask *ask,
                         uint32_t count)
{
    uint32_t size = ask->phase->size;

    for (uint32_t i = 0; i < count && desk->free_ps != NULL; i++) {
        for (uint32_t seat = 0; seat < size; seat++)
            occupy(desk, ask, tutti_ring_rank(ask->phase, desk->bases[i], seat),
                   desk->kinds[(size_t)i * size + seat],
                   finish_of(desk, size, i, seat + 1 < size ? seat + 1 : 0));
    }
}

static void scatter(const struct tutti_phase_desk *desk, const struct tutti_ring_phase *phase,
                    uint32_t count, tutti_ps *out_ps)
{
    for (uint32_t seat = 0; seat < phase->size; seat++) {
        uint32_t offset = tutti_ring_rank(phase, 0, seat);

        for (uint32_t i = 0; i < count; i++)
            out_ps[desk->bases[i] + offset] = finish_of(desk, phase->size, i, seat);
    }
}

static int play_rings(struct tutti_phase_desk *desk, const struct tutti_phase_ask *ask,
                      tutti_ps *out_ps, struct tutti_err *err)
{
    uint32_t ring_count = desk->rank_count / ask->phase->size;
    uint32_t kind = desk->hops->families[ask->family].kind;
    int status = 0;

    for (size_t i = 0; i < (size_t)desk->block * ask->phase->size; i++)
        desk->kinds[i] = kind;
    for (uint32_t ring = 0; ring < ring_count && status == 0; ring += desk->block) {
        uint32_t count = ring_count - ring < desk->block ? ring_count - ring : desk->block;

        for (uint32_t i = 0; i < count; i++)
            desk->bases[i] = tutti_ring_base(ask->phase, ring + i);
        if (!gather(desk, ask, count))
            return tutti_fail(err, TUTTI_ELACK,
                              "a rank goes on before the next one has taken what an earlier phase "
                              "has sent to it");
        status = check_block(desk, ask, count, err);
        for (uint32_t i = 0; i < count && status == 0; i++)
            status = play_ring(desk, ask, i, err);
        if (status < 0)
            break;
        occupy_block(desk, ask, count);
        scatter(desk, ask->phase, count, out_ps);
    }
    return status;
}

/* All ranks begin together on hops of one kind, and nothing has to be compared; what was sent
 * before has been taken, as times of all ranks never run back. */
static bool is_plain(const struct tutti_phase_desk *desk, const struct tutti_phase_ask *ask)
{
    return ask->ready->each_ps == NULL && (ask->turn == NULL || ask->turn->each_ps == NULL) &&
           (ask->slots == NULL || ask->slots->each_ps == NULL) &&
           desk->hops->families[ask->family].kinds == NULL && desk->free_ps == NULL;
}

int tutti_phase_play(struct tutti_phase_desk *desk, const struct tutti_phase_ask *ask,
                     struct tutti_rank_times *ret, uint32_t *ret_simulated_count,
                     struct tutti_err *err)
{
    const struct tutti_ring_phase *phase = ask->phase;
    struct tutti_rank_times times = {.each_ps = NULL};
    int status;

    weigh_kinds(desk, phase->bytes);
    desk->simulated_count = 0;
    desk->is_alike = false;
    desk->first_ps = INT64_MAX;
    desk->last_ps = 0;
    if (is_long(desk, ask))
        return tutti_fail(err, TUTTI_ELACK, "its times are too long to be added up");
    if (is_plain(desk, ask)) {
        uint32_t kind = desk->hops->families[ask->family].kind;

        times.all_ps =
            tutti_later_ps(ask->ready->all_ps, ask->turn != NULL ? ask->turn->all_ps : 0) +
            tutti_ring_alike_ps(phase->transfer_count, desk->hop_ps[kind], phase->reduce_count,
                                reduce_ps_of(desk, phase));
        times.last_ps = times.all_ps;
        *ret_simulated_count = 1;
        *ret = times;
        return 0;
    }
    times.each_ps = take_times(desk);
    if (times.each_ps == NULL)
        return tutti_nomem(err);
    status = play_rings(desk, ask, times.each_ps, err);
    if (status < 0 || desk->first_ps == desk->last_ps)
        tutti_phase_give_back(desk, &times);
    if (status < 0)
        return status;
    times.all_ps = times.last_ps = desk->last_ps;
    *ret_simulated_count = desk->simulated_count + (desk->is_alike ? 1 : 0);
    *ret = times;
    return 0;
}
