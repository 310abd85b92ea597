/* Folded play: what several ranks do alike is simulated once. Ways to do it, tried in this order:
 *
 *   rings   schedules made of ring phases (rings, tori, hierarchies of equal parts in whole
 *           messages), also on unequal links, and if ranks start at different times: ring by ring,
 *           see sim/fold/phases.h; rings of unequal parts by the longest way of a part, where that
 *           is all (sim/fold/ring_chunks.h)
 *   trees   schedules of trees over each edge of which one message goes, on one switch: subtree by
 *           subtree, see sim/fold/trees.h
 *   ranks   schedules whose generator says that all ranks run one program but for names (also ring
 *           blocks and exchanges, where the data can be cut into equal parts), on machines whose
 *           routes between partners make few different ranks; under `fair` only where each link
 *           serves one connection. One rank of each class is simulated: the class of a partner is a
 *           class of partners, so a play in which all ranks of a class do the same fulfils all the
 *           rules, and there is but one that does, as long as no two lanes want a link at the same
 *           instant. That is watched for.
 *   periods under `alphabeta`: pipelines of several lanes; every rank is played, until all is as it
 *           was some rounds ago, in the same order, see sim/fold/periods.h
 *   lanes   under `fair`: any schedule whose programs are not too long, rounds that repeat aside;
 *           lanes, wires and links are put into classes together, and the links divided among the
 *           members of classes. Rounds after which all stands as before are skipped.
 *
 * Any way, times are those of the unfolded play, to the picosecond. Nothing folds under jitter, nor
 * where links have token buckets, and where ranks start at different times only rings do. */
#ifndef TUTTI_SIM_FOLD_FOLD_H
#define TUTTI_SIM_FOLD_FOLD_H

#include <stdint.h>

#include "runtime/units.h"
#include "sim/fold/programs.h"
#include "sim/fold/quotient.h"

struct tutti_err;
struct tutti_fold_lanes;
struct tutti_fold_memory;
struct tutti_protocol;
struct tutti_schedule;
struct tutti_sim_opts;

struct tutti_folded {
    tutti_ps end_ps;      /* of the clock, which starts when the launch is paid for */
    uint64_t step_count;  /* of all ranks, those that were not simulated included */
    uint32_t class_count; /* ranks that were simulated; of rings: in the phase with most */
};

/* -TUTTI_ELACK where it cannot be folded, and why. `step_count_max`, if not 0, holds for the steps
 * that are simulated. */
int tutti_fold_play(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                    uint64_t step_count_max, struct tutti_folded *ret, struct tutti_err *err);

/* What a play under a protocol took, and the most that a message of it took beyond its latency. */
struct tutti_fold_took {
    const struct tutti_protocol *protocol;
    tutti_ps end_ps;
    tutti_ps drain_ps_max;
};

enum { TUTTI_FOLD_TOOK_MAX = 8 };

/* What is found out about a schedule on a machine whatever the protocol, and by plays under one:
 * for several plays of it. Begins zeroed. */
struct tutti_fold_known {
    struct tutti_fold_memory *memory; /* NULL, or what is known of other schedules; borrowed */
    struct tutti_fold_lanes *lanes;   /* NULL, or the memory's */
    struct tutti_kinds kinds;         /* of their programs */
    struct tutti_fold_memory *own;    /* where there was no memory */
    int status;                       /* of reading programs; negative: and why */
    struct tutti_err *why;
    const struct tutti_quotient *quotients[2]; /* those that have been found, the memory's */
    struct tutti_hop_loads loads;              /* 0: not known */
    struct tutti_fold_took took[TUTTI_FOLD_TOOK_MAX];
    uint32_t took_count;
};
void tutti_fold_known_done(struct tutti_fold_known *known);
/* Where there is no memory, makes one for the plays of this schedule. */
int tutti_fold_known_memory(struct tutti_fold_known *known, struct tutti_err *err);

/* Notes what a play took, of one lane of each class or of all ranks; without a protocol, with
 * jitter, or where drain_ps_max is negative, for it is not known, there is nothing to note. */
void tutti_fold_note_took(struct tutti_fold_known *known, const struct tutti_sim_opts *opts,
                          tutti_ps end_ps, tutti_ps drain_ps_max);

/* The same, with what is known already; it finds out more. */
int tutti_fold_play_known(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                          uint64_t step_count_max, struct tutti_fold_known *known,
                          struct tutti_folded *ret, struct tutti_err *err);

/* A time below which no play of the schedule under a protocol ends, by what is known from plays
 * under others: 0 where nothing is. See sim/fold/least.c. */
tutti_ps tutti_fold_least_ps(const struct tutti_fold_known *known,
                             const struct tutti_schedule *schedule,
                             const struct tutti_protocol *protocol);

#endif
