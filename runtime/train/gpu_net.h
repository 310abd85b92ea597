/* What a network has on a device. Private to runtime/train/gpu_net*.c. */
#ifndef TUTTI_RUNTIME_TRAIN_GPU_NET_H
#define TUTTI_RUNTIME_TRAIN_GPU_NET_H

#include "runtime/train/gpu.h"
#include "runtime/train/stage.h"

/* Of the columns of a convolution; rows whose sum is one thread's, and how many of them at most. */
enum { TUTTI_GPU_COLUMN_ELEMENTS = 1 << 26, TUTTI_GPU_PARTS_MAX = 256, TUTTI_GPU_PART_ROWS = 16 };

struct tutti_gpu_network {
    const struct tutti_network *net;
    struct tutti_device_queue *queue;
    struct tutti_network_batch batch; /* as on the host */
    uint32_t max_batch;
    float *raw;    /* inputs as they come */
    float *inputs; /* turned and rounded; NULL: as they come */
    float *targets;
    uint32_t *labels;
    float **values;      /* [stage], as in struct tutti_network_work */
    uint8_t **which;     /* [stage] */
    float **masks;       /* [stage] */
    float *gradients[2]; /* they change places */
    uint32_t turn;
    float *columns; /* of `together` examples */
    float *column_slopes;
    float *image;
    uint32_t *together; /* [stage] */
    float *rounded;
    double *parts;        /* [TUTTI_GPU_PARTS_MAX][widest] */
    double *scores;       /* [rows of the loss][2] */
    double *totals;       /* [TUTTI_GPU_PARTS_MAX][2] */
    uint64_t *states;     /* of random numbers, [example][4] */
    uint64_t *drawn_from; /* the same, of the host */
};

/* Of what a convolution leaves; of other stages 0. */
static inline size_t tutti_gpu_positions(const struct tutti_train_stage *stage)
{
    return stage->window.out_rows * stage->window.out_columns;
}

#endif
