/* The programs of all lanes of all ranks, read once: which are the same but for names, and between
 * which lanes messages go. */
#ifndef TUTTI_SIM_FOLD_PROGRAMS_H
#define TUTTI_SIM_FOLD_PROGRAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/schedule.h"

struct tutti_err;

/* The different programs, as words: equal words are equal programs but for names and offsets. Of
 * rounds that repeat there stands one period, after how many rounds there are. */
struct tutti_kinds {
    uint32_t count;
    uint32_t *first;  /* [count + 1] in words */
    uint64_t *words;  /* of one kind after the other */
    uint32_t *run_at; /* [kind]: which word says how many rounds repeat; UINT32_MAX: none, or
                         several do */
};

/* Lane l of rank r has the number r * schedule->lane_count + l. The k-th wire of a lane leads to
 * the k-th rank that it sends to, in the order of first use; those it receives from likewise. */
struct tutti_programs {
    uint32_t lane_count; /* of all ranks */
    uint32_t wire_count; /* as many messages' ways out as in */
    uint32_t *kind;      /* [lane]: lanes of equal numbers run one program but for names */
    uint32_t *dep_lane;  /* [lane]: another lane of the rank that it waits for, or UINT32_MAX */
    uint32_t *out_first; /* [lane + 1] in out_lane */
    uint32_t *out_lane;  /* [wire]: the lane it leads to */
    uint32_t *in_first;  /* [lane + 1] in in_wire */
    uint32_t *in_wire;   /* wires */
    struct tutti_kinds kinds;
};

/* -TUTTI_ELACK and why where they are too long, too different, or do not match. */
int tutti_programs_read(const struct tutti_schedule *schedule, struct tutti_programs *ret,
                        struct tutti_err *err);
void tutti_programs_done(struct tutti_programs *programs);
void tutti_kinds_done(struct tutti_kinds *kinds);

/* Are lanes of the same numbers alike in both, and do they send to the same? Their words may
 * differ. */
bool tutti_programs_match(const struct tutti_programs *a, const struct tutti_programs *b);

/* Are all words the same but for how many rounds repeat, where that is one number? */
bool tutti_kinds_match(const struct tutti_kinds *a, const struct tutti_kinds *b);

#endif
