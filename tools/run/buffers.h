/* The data of a real run: what goes in, and whether what comes out is right. */
#ifndef TUTTI_TOOLS_RUN_BUFFERS_H
#define TUTTI_TOOLS_RUN_BUFFERS_H

#include <stdint.h>

#include "runtime/schedule.h"

struct tutti_err;

/* Inputs of every rank that are nowhere zero, differ from rank to rank and from element to element,
 * and are chosen so that the right result does not depend on the order of the additions or
 * products, in every data type: floats are small whole numbers (products: powers of two), integers
 * wrap. So what must come out is computed element by element from the contract alone, with none of
 * the code that reduces, and compared bit for bit. */
struct tutti_buffers {
    struct tutti_contract contract;
    uint32_t rank_count;
    uint32_t first_rank; /* of those that this process has: the others' are NULL */
    uint32_t own_count;
    uint64_t in_bytes; /* per rank */
    uint64_t out_bytes;
    uint64_t seed;
    void **in; /* [rank_count], each of in_bytes */
    void **out;
    const uint64_t (*places)[2]; /* NULL, or in place: [rank]: where in and out begin in `state` */
    void **state; /* [rank], of the larger of in_bytes and out_bytes; the memory of in or out */
};

/* Takes and fills the buffers of a schedule. -TUTTI_ELACK if this machine has not that much memory
 * left. */
int tutti_buffers_open(const struct tutti_schedule *schedule, uint64_t seed,
                       struct tutti_buffers *ret, struct tutti_err *err);

/* Of `count` ranks from first_rank alone. */
int tutti_buffers_open_part(const struct tutti_schedule *schedule, uint64_t seed,
                            uint32_t first_rank, uint32_t count, struct tutti_buffers *ret,
                            struct tutti_err *err);
void tutti_buffers_close(struct tutti_buffers *buffers);

/* Fills the outputs with what no run writes, so that nothing left over passes for a result. */
void tutti_buffers_spoil(struct tutti_buffers *buffers);

/* Counts the elements of these outputs that are not what the contract asks for, and those of the
 * inputs that have changed. */
int tutti_buffers_wrong(const struct tutti_buffers *buffers, uint64_t *ret, struct tutti_err *err);

/* The same memory for a play in place: `state` is that of in or out, whichever is larger, and holds
 * the inputs where they belong; all else is spoilt. Outputs of before are gone. May be done again.
 * From then on `wrong` looks at what is in place of the outputs. -TUTTI_EINVAL for collectives that
 * are not played in place. */
int tutti_buffers_put_in_place(const struct tutti_schedule *schedule, struct tutti_buffers *buffers,
                               struct tutti_err *err);

#endif
