/* Multiplexed ranks: those that one thread plays, in turns, where a machine is emulated. Between
 * two instants of its clock the thread does what all of them have to do, and waits once for all;
 * with other processes it moves meanwhile what goes there and comes from there. Private to
 * runtime/exec/host. */
#ifndef TUTTI_RUNTIME_EXEC_HOST_MULTIPLEX_H
#define TUTTI_RUNTIME_EXEC_HOST_MULTIPLEX_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/engine.h"

struct tutti_thread_stage;

struct tutti_multiplex {
    struct tutti_thread_stage *stages; /* [count], of consecutive ranks; all of one engine */
    uint32_t count;
    uint32_t worker_index; /* before the pacer */
    bool has_works;        /* which other threads do */
};

/* For an engine of these ranks; its stage is a struct tutti_multiplex. */
extern const struct tutti_stage_ops tutti_multiplex_ops;

#endif
