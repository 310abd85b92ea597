/* Operations of image models, each on what the one before has left (build->frame).
 *
 * What is kept for the backward pass is what a framework with cuDNN keeps, each tensor once: what a
 * batch normalisation reads (its convolution's output), what an activation function writes, what
 * pooling, dropout and concatenation write (inputs of the next convolution), and the image. The
 * output of a sum is no input of its backward; statistics of a batch and indices of a pooling are
 * not counted. A convolution with a bias and an activation function keeps the latter's output
 * alone. */
#ifndef TUTTI_RUNTIME_WORKLOAD_IMAGE_H
#define TUTTI_RUNTIME_WORKLOAD_IMAGE_H

#include "runtime/workload/build.h"

/* Padding: as wide as it takes for an output of ceil(input / stride), or `valid`: so many
 * pixels. */
struct tutti_conv {
    const char *name;
    uint32_t kernel;
    uint32_t kernel_columns; /* 0: as many as rows */
    uint32_t stride;         /* 0: 1 */
    uint64_t channels;
    uint32_t groups; /* 0: 1 */
    bool valid;
    uint32_t pad;
    bool bias;
    bool frozen; /* not trained */
    bool shared; /* its variables are those of another */
};

/* The input: an image of `channels`, 32-bit floating-point numbers and a label of 4 bytes. */
void tutti_image_input(struct tutti_build *build, uint64_t channels);

uint64_t tutti_feature_map_elements(struct tutti_feature_map frame);

/* Begins a layer whose input is the frame. */
void tutti_image_layer(struct tutti_build *build, const char *name, uint32_t repeat);

/* The model's first convolution has no gradient of its input. */
void tutti_image_conv(struct tutti_build *build, struct tutti_conv conv);
/* Batch normalisation NAME, with its scale or with the shift alone; and an activation function. */
void tutti_image_norm(struct tutti_build *build, const char *name, bool scale);
void tutti_image_activation(struct tutti_build *build, const char *name);
/* Convolution, batch normalisation (NAME.norm), activation. */
void tutti_image_conv_norm(struct tutti_build *build, struct tutti_conv conv, bool scale);
/* Convolution with a bias, activation. */
void tutti_image_conv_bias(struct tutti_build *build, struct tutti_conv conv);

void tutti_image_pool(struct tutti_build *build, const char *name, uint32_t kernel, uint32_t stride,
                      bool valid);
void tutti_image_global_pool(struct tutti_build *build);
/* The sum of the frame and another of its size. */
void tutti_image_add(struct tutti_build *build, const char *name);

/* The frame becomes a row, and a dense layer with bias reads it. */
void tutti_image_flatten(struct tutti_build *build);
void tutti_image_dense(struct tutti_build *build, const char *name, uint64_t columns);
void tutti_image_dropout(struct tutti_build *build, const char *name);
/* The loss of the frame, whose elements are the logits. */
void tutti_image_loss(struct tutti_build *build);

/* Branches that read one frame, and whose outputs are joined along the channels. */
struct tutti_fork {
    struct tutti_feature_map from;
    uint64_t channels;
};
struct tutti_fork tutti_image_fork(const struct tutti_build *build);
/* The branch ends here; the next one begins where the fork was. */
void tutti_image_branch(struct tutti_build *build, struct tutti_fork *fork);
/* The last branch ends here, and all are joined. */
void tutti_image_join(struct tutti_build *build, struct tutti_fork *fork);

#endif
