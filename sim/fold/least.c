/* Lower bounds of the time of a play under `fair`, from what is known of it before it is played:
 *
 *   load   the busiest link of each kind has to carry all that crosses it, stretched as the
 *          protocol does, at the share of its rate that the protocol can use
 *   path   where data goes around a ring, the latencies of as many hops in a row as it has rounds,
 *          for each round waits for the message of the one before
 *   rings  where data goes around rings in phases, the best hops of each phase, one after the other
 *
 *   took   what a play under another protocol took, where each hop costs more now, by more than any
 *          message took there beyond its latency: each link of the chain of messages and steps that
 *          the play waited for, one after the other, takes longer now
 *
 * On top comes the launch. The load is taken a millionth less, for rates are doubles. */
#include <assert.h>
#include <stdlib.h>

#include "runtime/schedule.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/fold/class_play.h"
#include "sim/fold/fold.h"
#include "sim/fold/memory.h"
#include "sim/fold/phases.h"
#include "sim/fold/quotient.h"
#include "sim/net/net.h"
#include "sim/play/wires.h"
#include "sim/protocol.h"
#include "sim/sim.h"

/* The longest that links of a kind take for what crosses them. */
static tutti_ps busiest_ps(const struct tutti_quotient *quotient, const struct tutti_wide *loads,
                           int hop)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < quotient->link_count; i++) {
        struct tutti_wide rate = tutti_wide_of(quotient->link_rates[i][hop]);
        struct tutti_wide load = tutti_wide_times(loads[i], TUTTI_PS_PER_S);

        if (!tutti_wide_is_zero(rate))
            load = tutti_wide_divide(load, rate, &rate);
        if (quotient->link_rates[i][hop] > 0 && tutti_wide_word(load) > most)
            most = tutti_wide_word(load);
    }
    return most > INT64_MAX ? INT64_MAX : (tutti_ps)most;
}

int tutti_class_load(const struct tutti_quotient *quotient, const struct tutti_class_skip *skip,
                     int64_t more, struct tutti_class_played *ret, struct tutti_err *err)
{
    struct tutti_wide *loads = calloc((size_t)quotient->link_count + 1, sizeof(*loads));

    if (loads == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < quotient->wire_count; i++) {
        const struct tutti_quotient_wire *wire = &quotient->wires[i];
        uint64_t bytes = skip->bytes[i] + (uint64_t)more * skip->run_bytes[i];

        for (uint32_t k = wire->way_first; k < wire->way_first + wire->way_count; k++) {
            struct tutti_wide *load = &loads[quotient->ways[k].link];
            *load = tutti_wide_add(*load, tutti_wide_product(bytes, quotient->ways[k].weight));
        }
    }
    ret->load_ps = 0;
    for (int hop = 0; hop < TUTTI_HOP_COUNT; hop++) {
        ret->loads.ps[hop] = busiest_ps(quotient, loads, hop);
        ret->load_ps = tutti_later_ps(ret->load_ps, ret->loads.ps[hop]);
    }
    free(loads);
    return 0;
}

enum { LOAD_MARGIN = 1000000 };

static tutti_ps load_ps(const struct tutti_hop_loads *loads, const struct tutti_protocol *protocol)
{
    uint64_t most = 0;

    for (int hop = 0; hop < TUTTI_HOP_COUNT; hop++) {
        uint32_t ppm = protocol->link_ppm[hop] > 0 ? protocol->link_ppm[hop] : TUTTI_PPM;
        uint64_t load =
            tutti_muldiv((uint64_t)loads->ps[hop], protocol->wire_num, protocol->wire_den);

        load = tutti_muldiv(load, TUTTI_PPM, ppm);
        most = load > most ? load : most;
    }
    most -= most / LOAD_MARGIN + (most > 0);
    return most > INT64_MAX ? INT64_MAX : (tutti_ps)most;
}

/* Along the ring, from the first of the lanes on. */
static tutti_ps path_ps(const struct tutti_quotient *quotient,
                        const struct tutti_schedule *schedule,
                        const struct tutti_protocol *protocol)
{
    const struct tutti_quotient_lane *lane = &quotient->lanes[0];
    struct tutti_ring_phase phase;
    tutti_ps sum = 0;

    if (schedule->ops->ring_chunk == NULL ||
        !schedule->ops->ring_chunk(schedule, lane->lane, lane->rank, &phase))
        return 0;
    for (uint64_t i = 0; i < phase.transfer_count && lane->out_count == 1; i++) {
        const struct tutti_quotient_wire *wire =
            &quotient->wires[quotient->out_wire[lane->out_first]];

        sum = tutti_add_ps(sum, tutti_add_ps(wire->latency_ps, protocol->message_ps[wire->hop]));
        sum = tutti_add_ps(sum, protocol->slice_ps[wire->hop]);
        lane = &quotient->lanes[wire->receiver];
    }
    return sum;
}

/* Without the launch. */
static tutti_ps took_ps(const struct tutti_fold_took *took, const struct tutti_protocol *protocol)
{
    for (int hop = 0; hop < TUTTI_HOP_ROUTE_COUNT; hop++) {
        if (protocol->message_ps[hop] - took->protocol->message_ps[hop] < took->drain_ps_max)
            return 0;
    }
    return took->end_ps - took->protocol->launch_ps;
}

int tutti_fold_known_memory(struct tutti_fold_known *known, struct tutti_err *err)
{
    int status = 0;

    if (known->memory == NULL) {
        status = tutti_fold_memory_new(&known->own, err);
        known->memory = known->own;
    }
    return status;
}

void tutti_fold_known_done(struct tutti_fold_known *known)
{
    tutti_fold_memory_free(known->own);
    tutti_kinds_done(&known->kinds);
    free(known->why);
    *known = (struct tutti_fold_known){.status = 0};
}

void tutti_fold_note_took(struct tutti_fold_known *known, const struct tutti_sim_opts *opts,
                          tutti_ps end_ps, tutti_ps drain_ps_max)
{
    if (opts->protocol == NULL || tutti_jitter_q32(opts->jitter) != 0 || drain_ps_max < 0 ||
        end_ps == INT64_MAX || known->took_count == TUTTI_FOLD_TOOK_MAX)
        return;
    assert(end_ps >= opts->protocol->launch_ps);
    known->took[known->took_count++] = (struct tutti_fold_took){
        .protocol = opts->protocol, .end_ps = end_ps, .drain_ps_max = drain_ps_max};
}

tutti_ps tutti_fold_least_ps(const struct tutti_fold_known *known,
                             const struct tutti_schedule *schedule,
                             const struct tutti_protocol *protocol)
{
    tutti_ps least = load_ps(&known->loads, protocol);

    for (int i = 0; i < 2; i++) {
        tutti_ps path = 0;

        if (known->quotients[i] != NULL)
            path = path_ps(known->quotients[i], schedule, protocol);
        least = path > least ? path : least;
    }
    if (known->memory != NULL)
        least = tutti_later_ps(least, tutti_phases_least_ps(tutti_fold_memory_hops(known->memory),
                                                            schedule, protocol));
    for (uint32_t i = 0; i < known->took_count; i++)
        least = tutti_later_ps(least, took_ps(&known->took[i], protocol));
    return tutti_add_ps(protocol->launch_ps, least);
}
