/* Who touched which bytes when, and what a pass over them costs; private to sim/local. */
#ifndef TUTTI_SIM_LOCAL_MEMORY_H
#define TUTTI_SIM_LOCAL_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/local.h"

struct tutti_schedule;
struct tutti_err;

/* Bytes that are touched together or not at all: no step begins or ends between them. */
struct local_segment {
    uint64_t offset;
    uint64_t bytes;
    uint64_t holders;     /* bit c: processor c has touched them since another one wrote them */
    uint64_t all_at;      /* bytes that all processors together had touched when these were, last */
    uint32_t reader;      /* rank + 1 that read them last, from beyond its own cache; 0: none did */
    uint64_t serial;      /* of that pass */
    double fetched_ps;    /* what that took a byte */
    uint64_t pass_serial; /* of the pass that touched it last, */
    uint64_t pass_offset; /* where in that it came, */
    uint64_t pass_next;   /* and what else that touched: segment + 1; 0: nothing before it */
    bool cached;          /* false: in memory alone */
    bool dirty;           /* its one holder has written them */
};

/* How many bytes a processor had touched when a pass came to a segment: at the beginning of the
 * pass, and when it was at the first and past the last byte of the segment. */
struct local_touched {
    uint64_t pass_at;
    uint64_t first_at;
    uint64_t end_at;
};

struct local_memory {
    uint32_t processor_count;
    uint32_t rank_count;
    struct local_segment *segments; /* of all buffers, one after another */
    struct local_touched *touched;  /* [segment * processors + processor] */
    uint64_t *first;                /* [buffer], and one more: its segments */
    double *saved_ps;               /* [rank]: of the pass being put together */
    uint64_t *current;              /* [rank]: serial of the pass it is at; 0: none */
    uint64_t serial;                /* of the last pass that was put together */
    uint64_t *own_count;            /* [processor]: bytes that it has touched */
    uint64_t all_count;
};

enum tutti_local_touch { LOCAL_READ, LOCAL_WRITE, LOCAL_WRITE_PAST };

/* A pass being put together: what it takes by itself, and how much of that time it would take of
 * what all share. */
struct local_pass {
    const struct tutti_local *local;
    enum tutti_local_parameter past; /* what stores past the cache cost by, */
    enum tutti_local_parameter far;  /* and reading what lies in memory alone */
    uint32_t rank;
    uint32_t processor;
    uint64_t moved_bytes;
    uint64_t length_bytes; /* of its longest operand */
    uint64_t touched;      /* the segment + 1 that was touched last; 0: none yet */
    double alone_ps;
    double shared_ps;
    /* [rank]: what it has saved by reading what that rank has just fetched */
    double *saved_ps;
};

/* Walks all programs for where their steps begin and end. */
int tutti_local_memory_open(const struct tutti_schedule *schedule, uint32_t processor_count,
                            struct local_memory *ret, struct tutti_err *err);
void tutti_local_memory_close(struct local_memory *memory);
void tutti_local_memory_forget(struct local_memory *memory); /* all bytes are in memory alone */

/* Operands of one pass, in the order in which each element's are used; then the end of it. */
void tutti_local_touch(struct local_memory *memory, struct local_pass *pass, uint32_t rank,
                       unsigned buf, uint64_t offset, uint64_t bytes, enum tutti_local_touch how);
/* What part of what was touched `distance` bytes ago a cache still has. */
double tutti_local_kept(uint64_t distance, double cache_bytes);

void tutti_local_touch_end(struct local_memory *memory, const struct local_pass *pass);

#endif
