/* The backend `threads`: one process, a thread a rank, data really moved and reduced. */
#ifndef TUTTI_RUNTIME_THREADS_H
#define TUTTI_RUNTIME_THREADS_H

#include <stdbool.h>

#include "runtime/backend.h"

struct tutti_threads_opts {
    bool pin; /* rank r on the r-th processor that this process may use, round robin */
};

/* Opens the backend; opts may be NULL. Default deadline of a wait: 30 s. */
int tutti_threads_open(const struct tutti_threads_opts *opts, struct tutti_backend **ret,
                       struct tutti_err *err);

#endif
