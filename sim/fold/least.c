/* Times below which no play under `fair` ends, whatever the protocol, by what is known of it:
 *
 *   load   the busiest link has to carry all that crosses it, stretched as the protocol does
 *   path   where data goes around a ring, the latencies of as many hops in a row as it has rounds,
 *          for each round waits for the message of the one before
 *
 *   took   what a play under another protocol took, where each hop costs more now, by more than any
 *          message took there beyond its latency: each link of the chain of messages and steps that
 *          the play waited for, one after the other, takes longer now
 *
 * On top comes the launch. The load is taken a millionth less, for rates are doubles. */
#include <assert.h>

#include "runtime/schedule.h"
#include "runtime/wide.h"
#include "sim/fold/fold.h"
#include "sim/fold/quotient.h"
#include "sim/net/net.h"
#include "sim/play/wires.h"
#include "sim/protocol.h"
#include "sim/sim.h"

enum { LOAD_MARGIN = 1000000 };

static tutti_ps load_ps(tutti_ps plain_ps, const struct tutti_protocol *protocol)
{
    uint64_t load = tutti_muldiv((uint64_t)plain_ps, protocol->wire_num, protocol->wire_den);

    load -= load / LOAD_MARGIN + (load > 0);
    return load > INT64_MAX ? INT64_MAX : (tutti_ps)load;
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
    tutti_ps least = load_ps(known->load_ps, protocol);

    for (int i = 0; i < 2; i++) {
        tutti_ps path = 0;

        if (known->quotients[i] != NULL)
            path = path_ps(known->quotients[i], schedule, protocol);
        least = path > least ? path : least;
    }
    for (uint32_t i = 0; i < known->took_count; i++)
        least = tutti_later_ps(least, took_ps(&known->took[i], protocol));
    return tutti_add_ps(protocol->launch_ps, least);
}
