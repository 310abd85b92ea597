/* What a driver and a worker say to each other, and a worker to the child in which functions run.
 * Private to runtime/cluster. */
#ifndef TUTTI_RUNTIME_CLUSTER_PROTOCOL_H
#define TUTTI_RUNTIME_CLUSTER_PROTOCOL_H

#include <stdint.h>

/* Types of frames. */
enum tutti_cluster_frame {
    TUTTI_CLUSTER_READY = 1, /* worker, first: text, its name */
    TUTTI_CLUSTER_BUSY,      /* worker, instead: text, why */
    TUTTI_CLUSTER_CALL,      /* driver: u64 number, text function, the input */
    TUTTI_CLUSTER_DONE,      /* worker: u64 number, the result */
    TUTTI_CLUSTER_FAILED,    /* worker: u64 number, u32 status, text */
    TUTTI_CLUSTER_OUT,       /* worker: text, a line */
    TUTTI_CLUSTER_NOTE,      /* likewise */
    TUTTI_CLUSTER_STOP,      /* driver: SIGTERM to the function's process; nothing */
    TUTTI_CLUSTER_GONE,      /* worker, last: text, how the function's process ended */
};

enum {
    TUTTI_CLUSTER_BYTES_MAX = 16 << 20,     /* of an input or a result, if nothing is said */
    TUTTI_CLUSTER_HEAD_BYTES = 2048,        /* of a frame, beside those: numbers, names, errors */
    TUTTI_CLUSTER_FUNCTION_BYTES_MAX = 256, /* of a function's name */
};

#endif
