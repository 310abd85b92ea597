/* The folded play; see fold.h. Here: rank by rank. The classes are a small machine of their own:
 * wire i of a class leads to the class of its partner i, perhaps back to itself, and what a rank
 * receives from its partner i comes over wire i of that partner's class.
 *
 * Lanes are taken in order of time where some share a first link, for that serves messages in the
 * order of their starts; else in any order (see sim/play/flow.c), each as far as it gets. */
#include "sim/fold/fold.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

#include "runtime/schedule.h"
#include "runtime/status.h"
#include "sim/fold/chains.h"
#include "sim/fold/class_play.h"
#include "sim/fold/classes.h"
#include "sim/fold/components.h"
#include "sim/fold/exchange.h"
#include "sim/fold/hops.h"
#include "sim/fold/memory.h"
#include "sim/fold/periods.h"
#include "sim/fold/phases.h"
#include "sim/fold/quotient.h"
#include "sim/fold/ring_chunks.h"
#include "sim/fold/trees.h"
#include "sim/net/net.h"
#include "sim/play/flow_past.h"
#include "sim/play/start.h"
#include "sim/play/wires.h"
#include "sim/sim.h"
#include "topo/topo.h"

#define NONE UINT32_MAX

/* A message in a slot; once it was taken, at_ps is since when the slot is free. */
struct slot {
    tutti_ps at_ps;
    uint64_t bytes;
    uint64_t index; /* of the SEND */
};

struct wire {
    const struct tutti_wire_kind *kind;
    uint64_t sent_count;
    uint64_t taken_count;
    uint64_t bytes; /* of the message before, and what it took: most are alike */
    tutti_ps wire_ps;
    tutti_ps busy_ps; /* the same of the connection, at its own pace */
    tutti_ps free_ps; /* when it has sent what it was given */
    uint32_t slot_first;
    uint32_t egress; /* in links */
    uint32_t lane;   /* that sends */
};

/* A first link; also who used it last. */
struct link {
    tutti_ps free_ps;
    tutti_ps start_ps;
    uint32_t lane;
};

struct lane {
    tutti_ps now_ps;
    struct tutti_cursor cursor;
    const struct tutti_step *step; /* the next one; NULL: the lane has ended */
    const struct tutti_partners *partners;
    uint32_t partner_count;
    uint32_t wire_first;  /* the wires it sends over */
    const uint32_t *from; /* [partner]: the wires it receives over */
    uint32_t fused;       /* wire whose oldest message the coming REDUCE reads, or NONE */
    uint32_t multiplicity;
    struct memory memory;
};

struct fold {
    const struct tutti_sim_opts *opts;
    const struct tutti_schedule *schedule;
    struct tutti_classes classes;
    struct tutti_partners *partners; /* [class * wire_count + wire] */
    uint32_t *from;
    struct wire *wires;
    struct link *links;
    struct slot *slots; /* [wire * slot_count + message mod slot_count] */
    struct lane *lanes; /* [class * lane_count + lane] */
    uint32_t wire_count;
    uint32_t lane_count;
    bool shares; /* some lanes share a first link */
    uint64_t step_count;
    uint64_t simulated_count;
    const char *unsuited; /* why, or NULL */
};

/* ---- steps ----------------------------------------------------------------------------------- */

static struct slot *slot_of(const struct fold *fold, const struct wire *wire, uint64_t number)
{
    return &fold->slots[wire->slot_first + number % fold->schedule->slot_count];
}

/* Which partner the next step names. */
static uint32_t partner_of(const struct lane *lane)
{
    uint32_t peer = lane->step->peer;
    bool sends = lane->step->kind == TUTTI_SEND;
    uint32_t i = 0;

    while (i < lane->partner_count &&
           (sends ? lane->partners[i].to : lane->partners[i].from) != peer)
        i++;
    assert(i < lane->partner_count); /* the generator has promised it */
    return i;
}

static struct wire *wire_of(const struct fold *fold, const struct lane *lane)
{
    uint32_t partner = partner_of(lane);

    return &fold->wires[lane->step->kind == TUTTI_SEND ? lane->wire_first + partner
                                                       : lane->from[partner]];
}

static bool give_up(struct fold *fold, const char *why)
{
    fold->unsuited = why;
    return false;
}

/* When the step that the next one of a lane waits for is complete; -1: not yet. False: that is not
 * known any more, and the attempt is over. Of other lanes only SENDs are known. */
static bool dep_time(struct fold *fold, const struct lane *lane, tutti_ps *ret_ps)
{
    const struct lane *other = lane - lane->cursor.lane + lane->step->dep_lane;
    uint64_t index = lane->step->dep_step;
    bool known = past_find(&other->memory, index, ret_ps);

    if (other != lane) {
        if (index + (other->step != NULL) >= other->cursor.step_index) {
            *ret_ps = -1; /* not yet begun */
            return true;
        }
        known = other->memory.past[index % PASTS].number == index + 1;
    }
    return known || give_up(fold, "its steps wait for old ones, or for other lanes to reduce");
}

/* When the next step of a lane can be taken: a SEND when it starts, a RECV when it is complete.
 * False: not before another lane has got on, or never. */
static bool next_time(struct fold *fold, const struct lane *lane, tutti_ps *ret_ps)
{
    const struct tutti_step *step = lane->step;
    tutti_ps at_ps = 0;

    *ret_ps = lane->now_ps;
    if (step == NULL)
        return false;
    if ((step->flags & TUTTI_STEP_DEP) != 0) {
        if (!dep_time(fold, lane, &at_ps) || at_ps < 0)
            return false;
        *ret_ps = at_ps > *ret_ps ? at_ps : *ret_ps;
        at_ps = 0;
    }
    if (step->kind == TUTTI_SEND) {
        const struct wire *wire = wire_of(fold, lane);

        if (wire->sent_count - wire->taken_count == fold->schedule->slot_count)
            return false;
        if (wire->sent_count >= fold->schedule->slot_count)
            at_ps = slot_of(fold, wire, wire->sent_count)->at_ps;
    } else if (step->kind == TUTTI_RECV) {
        const struct wire *wire = wire_of(fold, lane);

        if (wire->sent_count == wire->taken_count)
            return false;
        at_ps = slot_of(fold, wire, wire->taken_count)->at_ps;
    }
    *ret_ps = at_ps > *ret_ps ? at_ps : *ret_ps;
    return true;
}

/* When a message that starts now will have arrived. */
static tutti_ps arrival_of(const struct fold *fold, struct wire *wire, struct link *link,
                           tutti_ps now_ps)
{
    tutti_ps latency_ps = wire->kind->latency_ps;
    tutti_ps begin_ps;

    if (fold->opts->model == TUTTI_MODEL_FAIR) /* the latency first, then the bytes in order */
        return link->free_ps = tutti_add_ps(
                   tutti_later_ps(link->free_ps, tutti_add_ps(now_ps, latency_ps)), wire->busy_ps);
    begin_ps = tutti_later_ps(link->free_ps, now_ps);
    link->free_ps = tutti_add_ps(begin_ps, wire->wire_ps);
    wire->free_ps = tutti_add_ps(tutti_later_ps(begin_ps, wire->free_ps), wire->busy_ps);
    return tutti_add_ps(wire->free_ps, latency_ps);
}

static void do_send(struct fold *fold, struct lane *lane)
{
    struct wire *wire = wire_of(fold, lane);
    struct slot *slot = slot_of(fold, wire, wire->sent_count);
    struct link *link = &fold->links[wire->egress];
    uint64_t bytes = lane->step->bytes;

    if (link->lane != NONE && link->lane != wire->lane && link->start_ps == lane->now_ps) {
        (void)give_up(fold, "lanes of a rank want a link at the same instant");
        return;
    }
    assert(link->start_ps <= lane->now_ps);
    link->start_ps = lane->now_ps;
    link->lane = wire->lane;
    if (bytes != wire->bytes) {
        wire->bytes = bytes;
        wire->wire_ps = tutti_hop_busy_ps(
            fold->opts, (struct tutti_pace){.bytes_per_s = wire->kind->bytes_per_s}, bytes);
        wire->busy_ps = tutti_hop_busy_ps(fold->opts, wire->kind->pace, bytes);
    }
    *slot = (struct slot){.at_ps = arrival_of(fold, wire, link, lane->now_ps),
                          .bytes = bytes,
                          .index = lane->cursor.step_index - 1};
    wire->sent_count++;
    past_started(&lane->memory, slot->index);
}

/* The oldest message of a wire has been taken: its SEND is complete. */
static void complete(struct fold *fold, struct wire *wire, tutti_ps now_ps)
{
    struct slot *slot = slot_of(fold, wire, wire->taken_count);

    past_done(&fold->lanes[wire->lane].memory, slot->index, now_ps);
    slot->at_ps = now_ps;
    wire->taken_count++;
    fold->step_count += fold->lanes[wire->lane].multiplicity;
}

static void do_recv(struct fold *fold, struct lane *lane)
{
    struct wire *wire = wire_of(fold, lane);

    if (slot_of(fold, wire, wire->taken_count)->bytes != lane->step->bytes)
        (void)give_up(fold, "a message is not as long as what is received");
    else if ((lane->step->flags & TUTTI_STEP_FUSE) != 0)
        lane->fused = (uint32_t)(wire - fold->wires);
    else
        complete(fold, wire, lane->now_ps);
    fold->step_count += lane->multiplicity;
}

static void do_local(struct fold *fold, struct lane *lane)
{
    if (lane->step->kind != TUTTI_REDUCE && lane->step->kind != TUTTI_COPY) {
        (void)give_up(fold, "its ranks compute or call");
        return;
    }
    if (fold->opts->reduce_bytes_per_s > 0)
        lane->now_ps = tutti_add_ps(
            lane->now_ps, tutti_wire_ps(lane->step->bytes, fold->opts->reduce_bytes_per_s));
    fold->step_count += lane->multiplicity;
    if (lane->fused != NONE)
        complete(fold, &fold->wires[lane->fused], lane->now_ps);
    lane->fused = NONE;
}

static void do_step(struct fold *fold, struct lane *lane, tutti_ps at_ps)
{
    lane->now_ps = at_ps;
    if (lane->step->kind == TUTTI_SEND)
        do_send(fold, lane);
    else if (lane->step->kind == TUTTI_RECV)
        do_recv(fold, lane);
    else
        do_local(fold, lane);
    lane->step = tutti_cursor_next(&lane->cursor);
    fold->simulated_count++;
}

/* ---- the run --------------------------------------------------------------------------------- */

/* Takes the earliest step of all; false if there is none. */
static bool run_earliest(struct fold *fold)
{
    struct lane *first = NULL;
    tutti_ps first_ps = INT64_MAX;

    for (uint32_t i = 0; i < fold->lane_count; i++) {
        tutti_ps at_ps;

        if (next_time(fold, &fold->lanes[i], &at_ps) && (first == NULL || at_ps < first_ps)) {
            first = &fold->lanes[i];
            first_ps = at_ps;
        }
    }
    if (first != NULL && fold->unsuited == NULL)
        do_step(fold, first, first_ps);
    return first != NULL;
}

/* Takes all steps that can be taken, lane by lane; false if there were none. */
static bool run_sweep(struct fold *fold, uint64_t step_count_max)
{
    uint64_t before = fold->simulated_count;

    for (uint32_t i = 0; i < fold->lane_count; i++) {
        struct lane *lane = &fold->lanes[i];
        tutti_ps at_ps;

        while (fold->unsuited == NULL && fold->simulated_count <= step_count_max &&
               next_time(fold, lane, &at_ps))
            do_step(fold, lane, at_ps);
    }
    return fold->simulated_count > before;
}

static int run(struct fold *fold, uint64_t step_count_max, tutti_ps *ret_ps, struct tutti_err *err)
{
    uint64_t limit = step_count_max > 0 ? step_count_max : UINT64_MAX - 1;
    bool goes_on = true;

    while (goes_on && fold->unsuited == NULL && fold->simulated_count <= limit)
        goes_on = fold->shares ? run_earliest(fold) : run_sweep(fold, limit);
    if (fold->unsuited != NULL)
        return tutti_fail(err, TUTTI_ELACK, "'%s': %s", fold->schedule->name, fold->unsuited);
    if (fold->simulated_count > limit)
        return tutti_fail(err, TUTTI_ELACK,
                          "it takes more than %" PRIu64 " steps to simulate, folded",
                          step_count_max);
    *ret_ps = 0;
    for (uint32_t i = 0; i < fold->lane_count; i++) {
        if (fold->lanes[i].step != NULL)
            return tutti_fail(err, TUTTI_ELACK, "'%s': lanes wait for each other",
                              fold->schedule->name);
        *ret_ps = fold->lanes[i].now_ps > *ret_ps ? fold->lanes[i].now_ps : *ret_ps;
    }
    return 0;
}

/* ---- making it ------------------------------------------------------------------------------- */

static void lay_wires(struct fold *fold, uint32_t class, uint32_t lane)
{
    const struct tutti_classes *classes = &fold->classes;
    const uint32_t *of = classes->rank_class;
    uint32_t base = class * classes->wire_count;
    const uint16_t *kinds =
        &classes->rank_kinds[(size_t)classes->first[class] * classes->wire_count];
    uint32_t sender = class * fold->schedule->lane_count + lane;

    for (uint32_t i = classes->wire_first[lane]; i < classes->wire_first[lane + 1]; i++) {
        const struct tutti_wire_kind *kind = &classes->kinds[kinds[i]];
        struct wire *wire = &fold->wires[base + i];

        *wire = (struct wire){
            .kind = kind,
            .bytes = UINT64_MAX,
            .slot_first = (base + i) * fold->schedule->slot_count,
            .egress = base + kind->egress,
            .lane = sender,
        };
        fold->from[base + i] = of[fold->partners[base + i].from] * classes->wire_count + i;
        fold->links[base + i] = (struct link){.start_ps = 0, .lane = NONE};
        fold->shares |= kind->egress < classes->wire_first[lane];
    }
}

static void lay_lanes(struct fold *fold, tutti_ps start_ps)
{
    const struct tutti_schedule *schedule = fold->schedule;
    const struct tutti_classes *classes = &fold->classes;

    for (uint32_t id = 0; id < fold->lane_count; id++) {
        uint32_t class = id / schedule->lane_count;
        uint32_t number = id % schedule->lane_count;
        uint32_t first = class * classes->wire_count + classes->wire_first[number];
        struct lane *lane = &fold->lanes[id];

        *lane = (struct lane){
            .now_ps = start_ps,
            .partners = &fold->partners[first],
            .partner_count = classes->wire_first[number + 1] - classes->wire_first[number],
            .wire_first = first,
            .from = &fold->from[first],
            .fused = NONE,
            .multiplicity = classes->size[class],
        };
        (void)schedule->ops->partners(schedule, classes->first[class], number,
                                      &fold->partners[first], lane->partner_count);
        lay_wires(fold, class, number);
        tutti_cursor_open(&lane->cursor, schedule, classes->first[class], number);
        lane->step = tutti_cursor_next(&lane->cursor);
    }
}

static int make(struct fold *fold, struct tutti_err *err)
{
    const struct tutti_classes *classes = &fold->classes;

    fold->wire_count = classes->class_count * classes->wire_count;
    fold->lane_count = classes->class_count * fold->schedule->lane_count;
    if ((uint64_t)fold->wire_count * fold->schedule->slot_count > UINT32_MAX)
        return tutti_fail(err, TUTTI_ELACK, "'%" PRIu32 "' slots of a connection are too many",
                          fold->schedule->slot_count);
    fold->partners = calloc(fold->wire_count, sizeof(*fold->partners));
    fold->from = calloc(fold->wire_count, sizeof(*fold->from));
    fold->wires = calloc(fold->wire_count, sizeof(*fold->wires));
    fold->links = calloc(fold->wire_count, sizeof(*fold->links));
    fold->slots =
        calloc((size_t)fold->wire_count * fold->schedule->slot_count, sizeof(*fold->slots));
    fold->lanes = calloc(fold->lane_count, sizeof(*fold->lanes));
    if (fold->partners == NULL || fold->from == NULL || fold->wires == NULL ||
        fold->links == NULL || fold->slots == NULL || fold->lanes == NULL)
        return tutti_nomem(err);
    return 0;
}

/* One rank of each class, where no link is shared or `alphabeta` does not mind. */
static int play_ranks(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                      uint64_t step_count_max, struct tutti_folded *ret, struct tutti_err *err)
{
    struct fold fold = {.opts = opts, .schedule = schedule};
    struct tutti_folded folded = {.class_count = 0};
    int status = tutti_classes_find(opts, schedule, &fold.classes, err);

    if (status < 0)
        return status;
    status = make(&fold, err);
    if (status == 0) {
        lay_lanes(&fold, tutti_rank_begin_ps(
                             opts, 0, opts->protocol != NULL ? opts->protocol->launch_ps : 0));
        status = run(&fold, step_count_max, &folded.end_ps, err);
    }
    if (status == 0) {
        folded.step_count = fold.step_count;
        folded.class_count = fold.classes.class_count;
        *ret = folded;
    }
    free(fold.lanes);
    free(fold.slots);
    free(fold.links);
    free(fold.wires);
    free(fold.from);
    free(fold.partners);
    tutti_classes_done(&fold.classes);
    return status;
}

/* Reads the programs, once; then what came of it is known. */
static int find_lanes(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                      struct tutti_fold_known *known, struct tutti_err *err)
{
    int status = 0;

    if (known->lanes != NULL)
        return 0;
    if (known->why != NULL) {
        if (err != NULL)
            *err = *known->why;
        return known->status;
    }
    status = tutti_fold_known_memory(known, err);
    if (status == 0) {
        known->why = calloc(1, sizeof(*known->why));
        status = known->why == NULL ? tutti_nomem(err) : 0;
    }
    if (status < 0)
        return status;
    known->status = tutti_fold_memory_lanes(known->memory, opts->topo, schedule, &known->lanes,
                                            &known->kinds, known->why);
    if (known->status < 0 && err != NULL)
        *err = *known->why;
    return known->status;
}

static int find_quotient(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                         int ordered, struct tutti_fold_known *known, struct tutti_err *err)
{
    int status = find_lanes(opts, schedule, known, err);

    if (status == 0)
        status = tutti_fold_memory_quotient(known->lanes, ordered, err);
    if (status == 0)
        known->quotients[ordered] = known->lanes->quotients[ordered];
    return status;
}

/* One lane of each class, under `fair`. Wires to like lanes are taken to be alike; if that does not
 * hold, as where a reduction takes time, they are told apart. */
static int play_classes(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                        uint64_t step_count_max, struct tutti_fold_known *known,
                        struct tutti_folded *ret, struct tutti_err *err)
{
    int status = -TUTTI_ELACK;

    for (int ordered = 0; ordered < 2 && status == -TUTTI_ELACK; ordered++) {
        struct tutti_class_played played;

        status = find_quotient(opts, schedule, ordered, known, err);
        if (status < 0)
            return status;
        status = tutti_components_play(opts, schedule, known->quotients[ordered], step_count_max,
                                       &played, err);
        if (status == -TUTTI_ELACK)
            status = tutti_fold_memory_play(known->lanes, &known->kinds, ordered, opts, schedule,
                                            step_count_max, &played, err);
        if (status < 0)
            continue;
        known->loads = played.loads;
        tutti_fold_note_took(known, opts, played.end_ps, played.drain_ps_max);
        *ret = (struct tutti_folded){.end_ps = played.end_ps,
                                     .step_count = played.step_count,
                                     .class_count = known->quotients[ordered]->rank_classes};
    }
    return status;
}

/* Under `fair`, where links are shared. Rings whose chunks are `even` have fewer lanes that differ
 * than chunks; where chunks differ the lanes do, too, and it is the chunks that are few. */
static int play_shared(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                       uint64_t step_count_max, bool even, struct tutti_fold_known *known,
                       struct tutti_folded *ret, struct tutti_err *err)
{
    struct tutti_err why = {.text = ""};
    int status =
        even ? play_classes(opts, schedule, step_count_max, known, ret, err) : -TUTTI_ELACK;
    int chained;

    if (status != -TUTTI_ELACK)
        return status;
    chained = tutti_chains_play(opts, schedule, step_count_max, ret, &why);
    if (chained != -TUTTI_ELACK) {
        if (chained < 0 && err != NULL)
            *err = why;
        return chained;
    }
    return even ? status : play_classes(opts, schedule, step_count_max, known, ret, err);
}

/* One rank or lane of each class. */
static int play_some(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                     uint64_t step_count_max, bool even, struct tutti_fold_known *known,
                     struct tutti_folded *ret, struct tutti_err *err)
{
    struct tutti_hops *hops = tutti_fold_memory_hops(known->memory);
    int status;

    for (uint32_t rank = 1; opts->start_ps != NULL && rank < schedule->rank_count; rank++)
        if (opts->start_ps[rank] != opts->start_ps[0])
            return tutti_fail(err, TUTTI_ELACK, "ranks start at different times");
    status = even ? -TUTTI_ELACK : tutti_ring_chunks_play(opts, schedule, hops, ret, err);
    if (status == -TUTTI_ELACK)
        status = tutti_trees_play(opts, schedule, ret, err);
    if (status == -TUTTI_ELACK)
        status = play_ranks(opts, schedule, step_count_max, ret, err);
    if (status == -TUTTI_ELACK && opts->model == TUTTI_MODEL_ALPHABETA)
        status = tutti_periods_play(opts, schedule, step_count_max, ret, err);
    if (status == -TUTTI_ELACK && opts->model == TUTTI_MODEL_FAIR)
        status = tutti_exchange_play(opts, schedule, step_count_max,
                                     tutti_fold_memory_axes(known->memory), ret, err);
    if (status == -TUTTI_ELACK && opts->model == TUTTI_MODEL_FAIR)
        status = play_shared(opts, schedule, step_count_max, even, known, ret, err);
    return status;
}

int tutti_fold_play(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                    uint64_t step_count_max, struct tutti_folded *ret, struct tutti_err *err)
{
    struct tutti_fold_known known = {.status = 0};
    int status = tutti_fold_play_known(opts, schedule, step_count_max, &known, ret, err);

    tutti_fold_known_done(&known);
    return status;
}

int tutti_fold_play_known(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                          uint64_t step_count_max, struct tutti_fold_known *known,
                          struct tutti_folded *ret, struct tutti_err *err)
{
    struct tutti_err why = {.text = ""};
    bool suits = tutti_phases_suit(schedule);
    struct tutti_hops *hops;
    int status;

    if (tutti_jitter_q32(opts->jitter) != 0)
        return tutti_fail(err, TUTTI_ELACK, "jitter makes every rank different");
    if (opts->topo->has_bursts)
        return tutti_fail(err, TUTTI_ELACK, "links have token buckets, which only a full play has");
    if (tutti_fold_known_memory(known, err) < 0)
        return -TUTTI_ENOMEM;
    hops = tutti_fold_memory_hops(known->memory);
    status =
        suits ? tutti_phases_play(opts, schedule, step_count_max, hops, ret, &why) : -TUTTI_ELACK;
    if (status != -TUTTI_ELACK) {
        if (status < 0 && err != NULL)
            *err = why;
        return status;
    }
    status = play_some(opts, schedule, step_count_max, suits, known, ret, err);
    if (status == -TUTTI_ELACK && suits)
        status = tutti_wrap(err, status, "ring by ring: %s; rank by rank", why.text);
    return status;
}
