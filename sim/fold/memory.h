/* What folding remembers from one schedule on a machine to the next: the classes of lanes, where
 * programs are alike among the same lanes, and plays, where programs differ in nothing but how many
 * rounds repeat. All of it is compared word by word: an answer from memory is that of a play.
 *
 * Of one thread, and of one machine as it is: nothing of it may change meanwhile. */
#ifndef TUTTI_SIM_FOLD_MEMORY_H
#define TUTTI_SIM_FOLD_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/fold/class_play.h"
#include "sim/fold/programs.h"
#include "sim/fold/quotient.h"

struct tutti_err;
struct tutti_hops;
struct tutti_known_axes;
struct tutti_schedule;
struct tutti_sim_opts;
struct tutti_topo;

struct tutti_fold_memory;
struct tutti_fold_play; /* one that is remembered */

/* A schedule's lanes: their programs, and their classes as far as somebody has asked for them. */
struct tutti_fold_lanes {
    const struct tutti_topo *topo;
    uint32_t per_rank;
    struct tutti_programs programs;      /* without kinds */
    struct tutti_quotient *quotients[2]; /* lanes of each class: like wires alike, or told apart */
    int status[2];                       /* of looking for them, where there are none */
    struct tutti_err *why[2];
    struct tutti_fold_play *plays;
};

int tutti_fold_memory_new(struct tutti_fold_memory **ret, struct tutti_err *err);
void tutti_fold_memory_free(struct tutti_fold_memory *memory); /* NULL is a no-op */

/* The hops of the last schedule of ring phases, or none; the memory's. */
struct tutti_hops *tutti_fold_memory_hops(struct tutti_fold_memory *memory);

/* Whether the machine has axes: of one machine, as all of the memory. */
struct tutti_known_axes *tutti_fold_memory_axes(struct tutti_fold_memory *memory);

/* Reads the programs of a schedule, or knows them by its recipe. *ret is the memory's, until
 * another schedule is read; the kinds of programs are the caller's. -TUTTI_ELACK as
 * tutti_programs_read. */
int tutti_fold_memory_lanes(struct tutti_fold_memory *memory, const struct tutti_topo *topo,
                            const struct tutti_schedule *schedule, struct tutti_fold_lanes **ret,
                            struct tutti_kinds *ret_kinds, struct tutti_err *err);

/* Looks for the classes of lanes, once: then they are known, or why there are none. */
int tutti_fold_memory_quotient(struct tutti_fold_lanes *lanes, int ordered, struct tutti_err *err);

/* Plays, or knows already; as tutti_class_play. */
int tutti_fold_memory_play(struct tutti_fold_lanes *lanes, const struct tutti_kinds *kinds,
                           int ordered, const struct tutti_sim_opts *opts,
                           const struct tutti_schedule *schedule, uint64_t step_count_max,
                           struct tutti_class_played *ret, struct tutti_err *err);

#endif
