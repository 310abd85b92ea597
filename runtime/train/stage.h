/* What a network's layers are made of: a stage is a product with all that follows it at once, or
 * dropout; private to runtime/train. */
#ifndef TUTTI_RUNTIME_TRAIN_STAGE_H
#define TUTTI_RUNTIME_TRAIN_STAGE_H

#include "runtime/train/loops.h"
#include "runtime/train/net.h"
#include "runtime/train/products.h"

struct tutti_arena;

enum tutti_train_stage_kind {
    TUTTI_TRAIN_DENSE,
    TUTTI_TRAIN_CONVOLUTION,
    TUTTI_TRAIN_DROPOUT,
    TUTTI_TRAIN_EMBEDDING
};

/* What a part of a network has of a dense stage: all; some columns of its weights, so that it
 * leaves some outputs; or some rows, so that it reads some inputs, and what it leaves is to be
 * added up. */
enum tutti_dense_split { TUTTI_TRAIN_WHOLE, TUTTI_TRAIN_COLUMNS, TUTTI_TRAIN_ROWS };

enum { TUTTI_TRAIN_NO_VARIABLE = INT32_MAX };

struct tutti_train_stage {
    enum tutti_train_stage_kind kind;
    uint32_t layer;
    bool relu;
    bool pooled;
    uint32_t weight;    /* variable of its layer; dropout has none */
    uint32_t bias;      /* or NO_VARIABLE */
    uint64_t weight_at; /* elements before it in the layer */
    uint64_t bias_at;
    /* Of the product: of a dense layer rows are examples, of a convolution positions. */
    size_t depth;
    size_t outputs;             /* columns */
    size_t table_rows;          /* of an embedding, of `depth` words an example */
    struct tutti_window window; /* of a convolution */
    struct tutti_window pool;   /* of what it leaves */
    size_t in_elements;         /* of one example */
    size_t out_elements;
    enum tutti_dense_split split;
    uint32_t number; /* in the whole network, */
    size_t first;    /* and the first of its elements there that a part has of dropout */
};

struct tutti_network {
    struct tutti_arena *arena;
    struct tutti_network_layer *layers;
    uint32_t *first_stage; /* [layer_count + 1] */
    uint32_t layer_count;
    struct tutti_train_stage *stages;
    uint32_t stage_count;
    struct tutti_network_input input;
    enum tutti_dtype dtype;
    float dropout;
    const struct tutti_products *products;
    struct tutti_products own; /* closed with the net, where they are its own */
    bool has_own;
    /* A part: */
    bool is_behind; /* it reads what another leaves, channels innermost */
    bool is_before; /* it leaves what another reads, and has no loss */
    struct tutti_network_run *runs;
    uint32_t run_count;
};

struct tutti_network_work {
    const struct tutti_network *net;
    const struct tutti_loops *loops;
    struct tutti_arena *arena;
    struct tutti_network_batch batch;
    uint32_t max_batch;
    float *inputs;        /* of a copy, channels innermost or rounded; NULL: as they come */
    float **values;       /* [stage] what it leaves: of dropout, what the one before left */
    uint8_t **which;      /* [stage] of pooling */
    float **masks;        /* [stage] of dropout: 0, or what survivors are multiplied by */
    float *gradients[2];  /* of what a stage leaves, and of what it reads: they change places */
    uint32_t turn;        /* which of the two the next backward pass begins with */
    float **kept;         /* [stage] of a part: gradients of what it leaves, for those of weights to
                             be computed later; NULL: they are not */
    float *columns;       /* of one example of a convolution */
    float *column_slopes; /* their gradients */
    float *image;         /* what a convolution with pooling leaves before it, or its gradient */
    float *rounded;       /* weights of a stage */
    const float *table_slopes; /* of what an embedding leaves, once its backward pass has ended */
    float *zeros;              /* the bias of a stage without one */
    double *sums;
    struct tutti_network_score score;
};

/* What a stage reads: [count][in_elements]. */
const float *tutti_train_stage_inputs(const struct tutti_network_work *work, uint32_t stage);
/* The weights of a stage as its product reads them. */
const float *tutti_train_stage_weights(struct tutti_network_work *work,
                                       const struct tutti_train_stage *stage, const float *weights);
/* Its bias, or zeros. */
const float *tutti_train_stage_bias(const struct tutti_network_work *work,
                                    const struct tutti_train_stage *stage, const float *weights);

/* ---- one stage, forward and backward (dense.c, convolution.c, dropout.c, embedding.c) ------ */

void tutti_dense_forward(struct tutti_network_work *work, uint32_t stage, const float *weights);
/* Its halves: the product, then bias and relu. */
void tutti_dense_product(struct tutti_network_work *work, uint32_t stage, const float *weights);
void tutti_dense_finish(struct tutti_network_work *work, uint32_t stage, const float *weights);
/* `slopes` is the gradient of what the stage leaves, and may be written, to the same effect if it
 * is given twice; in_slopes what it reads (NULL: nobody asks). gradients of NULL: not those. */
void tutti_dense_backward(struct tutti_network_work *work, uint32_t stage, const float *weights,
                          float *slopes, float *in_slopes, float *gradients, bool add);
void tutti_convolution_forward(struct tutti_network_work *work, uint32_t stage,
                               const float *weights);
void tutti_convolution_backward(struct tutti_network_work *work, uint32_t stage,
                                const float *weights, float *slopes, float *in_slopes,
                                float *gradients, bool add);
void tutti_dropout_forward(struct tutti_network_work *work, uint32_t stage);
void tutti_dropout_backward(struct tutti_network_work *work, uint32_t stage, float *slopes);

void tutti_embedding_forward(struct tutti_network_work *work, uint32_t stage, const float *weights);
/* gradients of NULL: tutti_network_slices() is asked for them. */
void tutti_embedding_backward(struct tutti_network_work *work, uint32_t stage, const float *slopes,
                              float *gradients, bool add);

/* Gradients of biases: sums over `rows` rows of slopes, in double precision. */
void tutti_bias_backward(struct tutti_network_work *work, const struct tutti_train_stage *stage,
                         const float *slopes, size_t rows, float *gradients, bool add);

/* The loss of the last stage's outputs; in training, also their gradients. */
void tutti_loss_forward(struct tutti_network_work *work, float *slopes);

#endif
