/* The points of a sweep ranked at each size, and who wins where. */
#ifndef TUTTI_TOOLS_SWEEP_RANKING_H
#define TUTTI_TOOLS_SWEEP_RANKING_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/sweep/sweep.h"

struct tutti_ranking_row {
    uint32_t size_index; /* in the sweep's sizes */
    uint32_t place_count;
    uint32_t places[TUTTI_SWEEP_ALGORITHMS_MAX]; /* indices of algorithms, the fastest first */
};

struct tutti_ranking {
    const struct tutti_sweep *sweep;
    uint32_t row_count; /* >= 1; sizes that round to the one before, or to nothing, have no row */
    struct tutti_ranking_row *rows;
    char letters[TUTTI_SWEEP_ALGORITHMS_MAX]; /* of the algorithms: 'A', 'B', ... */
};

/* Sizes [from, to] at which one algorithm wins without a break. */
struct tutti_win {
    uint32_t algorithm; /* index in the sweep */
    uint32_t first_row;
    uint32_t last_row;
    uint64_t from_bytes;
    uint64_t to_bytes;
};

/* Ranks by time; of equals the winner at the size before is first, then the order asked for. */
int tutti_ranking_open(const struct tutti_sweep *sweep, struct tutti_ranking *ret,
                       struct tutti_err *err);
void tutti_ranking_close(struct tutti_ranking *ranking);

const struct tutti_point *tutti_ranking_point(const struct tutti_ranking *ranking, uint32_t row,
                                              uint32_t algorithm);
const struct tutti_point *tutti_ranking_at(const struct tutti_ranking *ranking, uint32_t row,
                                           uint32_t place);

/* The win that begins in *row, which moves behind it; false at the end. */
bool tutti_ranking_next_win(const struct tutti_ranking *ranking, uint32_t *row,
                            struct tutti_win *ret);

#endif
