/* A child of a worker, in which functions run for one driver. Private to runtime/cluster. */
#ifndef TUTTI_RUNTIME_CLUSTER_SESSION_H
#define TUTTI_RUNTIME_CLUSTER_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "runtime/cluster.h"
#include "runtime/frames.h"

struct tutti_cluster_session {
    pid_t id;
    struct tutti_frames *frames; /* to the child */
    int outputs[2]; /* to read from: what it prints to descriptors 1 and 2; -1: ended */
};

/* `close_others` is called in the child with `data`, to close what is not the child's. */
int tutti_cluster_session_start(const struct tutti_cluster_worker_opts *opts,
                                void (*close_others)(void *data), void *data,
                                struct tutti_cluster_session *ret, struct tutti_err *err);

/* Kills all of it, and waits for the child. `ret_how` (size bytes) says how it had ended by itself,
 * or is "". */
void tutti_cluster_session_end(struct tutti_cluster_session *session, char *ret_how, size_t size);

#endif
