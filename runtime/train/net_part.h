/* A part of a network: layers that follow each other, and of dense layers that several ranks divide
 * the share of one. Private to the room runtime.
 *
 * Dense layers are divided in pairs (Megatron-LM: Shoeybi et al. 2019): of the first each rank has
 * some columns, so that it leaves some activations; of the second the rows that read them, so that
 * what all leave is to be added up. A layer without a partner all ranks have whole, and compute
 * alike. Layers of which a rank has a part may lie on both sides of a pipeline's cut.
 *
 * A pass is done in pieces: behind each but the last, what the ranks of a group have left is added
 * up. One piece more than additions: forward one for each layer with some rows, backward one for
 * each with some columns, but for the first of the network, whose inputs have no gradient. */
#ifndef TUTTI_RUNTIME_TRAIN_NET_PART_H
#define TUTTI_RUNTIME_TRAIN_NET_PART_H

#include "runtime/train/net.h"

/* Elements of a part's variables, all layers one behind the other, and where they are in those of
 * the network. */
struct tutti_network_run {
    uint64_t flat; /* in the network */
    uint64_t at;   /* in the part */
    uint64_t count;
    bool is_alike; /* all members have it */
};

struct tutti_network_cut {
    uint32_t first_layer;
    uint32_t layer_count; /* 1 or more */
    uint32_t member;      /* of `size` ranks that divide layers */
    uint32_t size;        /* 1: nobody does */
};

/* Borrows from `whole`. -TUTTI_EINVAL for layers that cannot be divided, by name. */
int tutti_network_part(const struct tutti_network *whole, const struct tutti_network_cut *cut,
                       struct tutti_network **ret, struct tutti_err *err);

/* *ret_count of them, in the order of `at`. */
const struct tutti_network_run *tutti_network_runs(const struct tutti_network *part,
                                                   uint32_t *ret_count);
/* Of one example: what a part reads and leaves; what is added up behind a piece, 0 behind the
 * last. */
uint64_t tutti_network_part_in(const struct tutti_network *part);
uint64_t tutti_network_part_out(const struct tutti_network *part);
uint32_t tutti_network_part_pieces(const struct tutti_network *part, bool backward);
uint64_t tutti_network_part_added(const struct tutti_network *part, bool backward, uint32_t piece);

/* ---- passes ---------------------------------------------------------------------------------- */

/* Where a piece finds what was added up behind the one before, and leaves what is to be. Ends of a
 * pass: what the part leaves to the next (forward; NULL: it has the loss), or to the one before
 * (backward; NULL: it is the first). */
struct tutti_network_piece {
    uint32_t piece;
    const float *added;
    float *adds;
    float *end;
};

/* Room for the gradients of what stages leave, so that those of weights can be computed later. */
int tutti_network_part_keep(struct tutti_network_work *work, struct tutti_err *err);

/* After tutti_network_begin, whose inputs are what the part before has left. `weights` of all
 * layers, one behind the other. */
void tutti_network_part_forward(struct tutti_network_work *work,
                                const struct tutti_network_piece *piece, const float *weights);
/* `slopes`: of what the part leaves, where the next part has sent them; gradients NULL: those of
 * weights are computed later, by the next. */
void tutti_network_part_backward(struct tutti_network_work *work,
                                 const struct tutti_network_piece *piece, const float *weights,
                                 const float *slopes, float *gradients, bool add);
void tutti_network_part_weights(struct tutti_network_work *work, const float *weights,
                                float *gradients, bool add);

#endif
