/* Blocks of threads of a GPU on a virtual clock; private to sim/local. */
#ifndef TUTTI_SIM_LOCAL_BLOCKS_H
#define TUTTI_SIM_LOCAL_BLOCKS_H

#include "sim/local.h"

struct local_blocks;

int tutti_local_blocks_open(const struct tutti_cuda_work *work, struct local_blocks **ret,
                            struct tutti_err *err);
void tutti_local_blocks_close(struct local_blocks *blocks); /* NULL is a no-op */

/* From the beginning of the first block to the end of the last. */
double tutti_local_blocks_play(struct local_blocks *blocks, const struct tutti_local *local);

#endif
