/* One collective really played on a backend: timed, checked, and the best algorithm found. */
#ifndef TUTTI_TOOLS_RUN_PERFORM_H
#define TUTTI_TOOLS_RUN_PERFORM_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/backend.h"
#include "runtime/coll.h"

struct tutti_ask;
struct tutti_group;

struct tutti_perform {
    struct tutti_backend *backend;
    struct tutti_group *group; /* NULL, or the processes that the backend plays with */
    const struct tutti_shape *shape;
    struct tutti_coll_params params;
    const struct tutti_ask *predicted; /* NULL, or: lay schedules out as tutti_predict does */
    uint32_t warmup_count;
    uint32_t iteration_count;
    bool back_to_back; /* iterations follow each other; else the ranks meet before each */
    bool carry;        /* with data: memory full of zeros is faster than any other */
    bool check;        /* carry, and hold what comes out against the contract */
    bool in_place;     /* carry: once more with in and out in one buffer, where that may be */
    /* The backend does what the contract says, and looks at no step: in place it is given `in` and
     * `out` that overlap. */
    bool by_contract;
    bool one_address; /* by_contract: only where in and out begin at one address */
    tutti_ps deadline_ps;
    uint64_t seed;               /* of the data */
    struct tutti_record *record; /* NULL, or the events of the last iteration */
};

struct tutti_timed {
    tutti_ps time_ps;         /* median iteration; back to back: the mean */
    tutti_ps best_ps;         /* shortest iteration; back to back: the mean */
    tutti_ps record_error_ps; /* as of struct tutti_played */
    tutti_ps host_ps;  /* mean until the host had handed an iteration to the GPU; 0: not known */
    double algbw_GBps; /* of time_ps; NAN where that is 0 */
    double busbw_GBps;
    uint64_t wrong_count; /* elements, of all ranks of all processes; 0 if not checked */
};

enum { TUTTI_PERFORMED_WHY_BYTES = 256 };

struct tutti_performed {
    const char *algorithm;
    uint64_t bytes; /* nccl-tests' size column */
    struct tutti_timed out_of_place;
    struct tutti_timed in_place; /* where it was asked for and done ... */
    bool done_in_place;
    char why_not[TUTTI_PERFORMED_WHY_BYTES]; /* ... else, asked for, why it was not */
};

/* Plays it by one algorithm, by name. With a group all of its processes do, and all get the same.
 */
int tutti_perform(const struct tutti_perform *ask, const char *algorithm,
                  struct tutti_performed *ret, struct tutti_err *err);

/* The name of the algorithm that is fastest here: each that fits is played a few times, briefly;
 * without data in the simulator. */
int tutti_perform_find_best(const struct tutti_perform *ask, const char **ret,
                            struct tutti_err *err);

#endif
