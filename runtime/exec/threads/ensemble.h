/* An ensemble: the ranks that one thread plays, in turns, where a machine is emulated. Between two
 * instants of its clock the thread does what all of them have to do, and waits once for all; with
 * other processes it moves meanwhile what goes there and comes from there.
 * Private to runtime/exec/threads. */
#ifndef TUTTI_RUNTIME_EXEC_THREADS_ENSEMBLE_H
#define TUTTI_RUNTIME_EXEC_THREADS_ENSEMBLE_H

#include <stdint.h>

#include "runtime/engine.h"

struct tutti_thread_stage;

struct tutti_ensemble {
    struct tutti_thread_stage *stages; /* [count], of consecutive ranks; all of one engine */
    uint32_t count;
    uint32_t seat; /* before the conductor */
};

/* For an engine of these ranks; its stage is a struct tutti_ensemble. */
extern const struct tutti_stage_ops tutti_ensemble_ops;

#endif
