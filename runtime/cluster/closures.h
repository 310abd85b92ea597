/* The closures of a driver: each with its input until it has run, and its result until it is
 * forgotten. Private to runtime/cluster. */
#ifndef TUTTI_RUNTIME_CLUSTER_CLOSURES_H
#define TUTTI_RUNTIME_CLUSTER_CLOSURES_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/status.h"

enum tutti_closure_state {
    TUTTI_CLOSURE_FREE,
    TUTTI_CLOSURE_QUEUED, /* or running */
    TUTTI_CLOSURE_DONE,
    TUTTI_CLOSURE_FAILED,
    TUTTI_CLOSURE_CANCELLED,
};

struct tutti_closure {
    uint64_t number; /* 0: free */
    enum tutti_closure_state state;
    uint32_t lost_count; /* times that its worker was lost */
    uint32_t next_free;
    char *function;
    void *data; /* the input, then the result, or the error's text */
    uint64_t bytes;
    int status; /* FAILED */
};

/* In slots; the number of a closure is its slot's, and how often that was taken. */
struct tutti_closures {
    struct tutti_closure *slots;
    uint32_t room;
    uint32_t used;       /* slots that were ever taken */
    uint32_t first_free; /* UINT32_MAX: none */
    uint32_t open_count; /* in the state QUEUED */
};

void tutti_closures_init(struct tutti_closures *closures);
void tutti_closures_done(struct tutti_closures *closures);

/* A new one, in the state QUEUED, with copies of what it needs. NULL: no memory. */
struct tutti_closure *tutti_closures_add(struct tutti_closures *closures, const char *function,
                                         const void *input, uint64_t bytes);
struct tutti_closure *tutti_closures_find(const struct tutti_closures *closures, uint64_t number);
/* It has ended in this state, with a copy of this. False: no memory, and it is as it was. */
bool tutti_closures_end(struct tutti_closures *closures, struct tutti_closure *closure,
                        enum tutti_closure_state state, int status, const void *data,
                        uint64_t bytes);
void tutti_closures_forget(struct tutti_closures *closures, struct tutti_closure *closure);

#endif
