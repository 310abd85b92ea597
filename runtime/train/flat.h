/* Weights as one row: all variables of all layers one behind the other, wherever ranks keep them.
 * Private to runtime/train. */
#ifndef TUTTI_RUNTIME_TRAIN_FLAT_H
#define TUTTI_RUNTIME_TRAIN_FLAT_H

#include "runtime/train/replica.h"

/* A stretch of that row, and where it lies in a rank's state, in elements. */
struct tutti_flat_piece {
    uint64_t flat;
    uint64_t state;
    uint64_t count;
};

/* Those that rank `rank` keeps: number `index` of them, at most one a pack; false: past the
 * last. */
bool tutti_flat_piece_at(const struct tutti_layout *layout, uint32_t rank, uint32_t index,
                         struct tutti_flat_piece *ret);
/* From the row to what a rank keeps (`state`: as long as its state), and back. */
void tutti_flat_scatter(const struct tutti_layout *layout, uint32_t rank, const float *all,
                        float *state);
void tutti_flat_gather(const struct tutti_layout *layout, uint32_t rank, const float *state,
                       float *all);

#endif
