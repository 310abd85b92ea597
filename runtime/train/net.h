/* A network that is really trained, made from a workload: forward and backward pass layer by
 * layer; private to the room runtime.
 *
 * What can be computed: layers of dense products and square convolutions, each with or without a
 * bias, a relu and (of convolutions) a 2 x 2 maximum pooling of stride 2; dropout; an embedding as
 * the first layer, the mean of the rows that an example's words name; at the end the loss, softmax
 * cross-entropy of classes of images and words, or of rows the mean square error. That is
 * "linear-regression", "mlp", "cifar10-cnn", "bag-of-words", and models of one's own text whose
 * operations are named "relu...", "pool..." and "dropout...". Anything else is refused by name.
 * Layers and variables are those of the workload, in its order, with its element counts; a layer's
 * repeats are layers.
 *
 * Inputs come channels first, [example][channel][row][column]; inside channels are the innermost,
 * so that kernels are [row][column][in][out] and dense weights [in][out], as TensorFlow's are.
 *
 * Mixed precision (FLOAT16, BFLOAT16): inputs, activations, their gradients and the weights as
 * products read them are rounded to that type; products are summed in float32; weights, their
 * gradients, biases, logits and the loss stay float32.
 *
 * Order of sums: all of a rank's results are a function of its own batch and weights, to the bit,
 * on one machine; threads and other ranks change nothing. Convolutions multiply example by
 * example, so that activations and gradients of an example do not depend on the batch that it is
 * in, and dense layers do not either where the loops multiply (products.h says what OpenBLAS may
 * do otherwise). So the same global batch on more ranks differs in one thing, the order in which
 * examples' gradients are summed: inside a rank one after the other in float32 (of biases in
 * double precision), then by the collective. */
#ifndef TUTTI_RUNTIME_TRAIN_NET_H
#define TUTTI_RUNTIME_TRAIN_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/data.h"

struct tutti_err;
struct tutti_network;
struct tutti_network_work;
struct tutti_products;
struct tutti_workload;

/* {0} is float32, no dropout, the best products there are. */
struct tutti_network_params {
    enum tutti_dtype dtype; /* FLOAT32, FLOAT16, BFLOAT16 */
    /* Of activations that dropout clears: at the workload's dropout operations or, where it has
     * none, after the relu of each dense layer. */
    float dropout;
    const struct tutti_products *products; /* borrowed; NULL: own ones, OpenBLAS with one thread */
};

/* Immutable, and shared by ranks. -TUTTI_EINVAL for a workload that cannot be computed, with the
 * name of what cannot. */
int tutti_network_new(const struct tutti_workload *model, const struct tutti_network_params *params,
                      struct tutti_network **ret, struct tutti_err *err);
void tutti_network_free(struct tutti_network *net); /* NULL is a no-op */

struct tutti_network_variable {
    char name[64];
    uint64_t elements;
};

struct tutti_network_layer {
    char name[64];
    const struct tutti_network_variable *variables;
    uint32_t variable_count;
    uint64_t elements;     /* of all its variables */
    uint64_t in_elements;  /* of one example */
    uint64_t out_elements; /* likewise */
};

uint32_t tutti_network_layer_count(const struct tutti_network *net);
const struct tutti_network_layer *tutti_network_layer(const struct tutti_network *net,
                                                      uint32_t layer);
uint64_t tutti_network_elements(const struct tutti_network *net); /* of all variables */

/* What an example is. */
struct tutti_network_input {
    uint64_t channels; /* of a net that begins with a dense layer all elements, and 1 x 1 */
    uint64_t rows;
    uint64_t columns;
    uint64_t classes; /* labels are below it; 0: targets instead */
    uint64_t targets; /* floats an example */
};
struct tutti_network_input tutti_network_input(const struct tutti_network *net);

/* The first weights of a layer, its variables one behind the other: Glorot uniform, and zeros for
 * biases, as Keras begins. A pure function of seed, layer and variable. */
void tutti_network_init(const struct tutti_network *net, uint64_t seed, uint32_t layer,
                        float *weights);

/* ---- a rank's own ---------------------------------------------------------------------------- */

/* What a rank works in: everything for batches of up to `max_batch`, taken once. `net` must outlive
 * it. */
int tutti_network_work_new(const struct tutti_network *net, uint32_t max_batch,
                           struct tutti_network_work **ret, struct tutti_err *err);
void tutti_network_work_free(struct tutti_network_work *work); /* NULL is a no-op */

/* Borrowed until the backward pass of this batch has ended. */
struct tutti_network_batch {
    const float *inputs;    /* [count][elements of an input], channels first */
    const uint32_t *labels; /* [count], or NULL */
    const float *targets;   /* [count][targets], or NULL */
    uint32_t count;         /* 0: an empty batch, whose gradients and loss are zero */
    /* What gradients are multiplied by: the loss scale / the global batch, so that summed over
     * ranks and micro-batches they are those of the mean loss times the scale. */
    float gradient_scale;
    bool training; /* else no dropout, and no backward pass */
    /* A dropout mask is a function of (seed, step, number of the example): first_example + i, or
     * examples[i] where that is not NULL. */
    uint64_t seed;
    uint64_t step;
    uint64_t first_example;
    const uint64_t *examples;
};

void tutti_network_begin(struct tutti_network_work *work, const struct tutti_network_batch *batch);

/* Layers in their order. `weights` are the layer's, its variables one behind the other, float32. */
void tutti_network_forward(struct tutti_network_work *work, uint32_t layer, const float *weights);

/* After the forward pass of the last layer. */
struct tutti_network_score {
    double loss;      /* sum over examples, neither divided nor scaled */
    uint64_t correct; /* examples whose label has the largest logit; 0 of targets */
    uint32_t count;
};
struct tutti_network_score tutti_network_score(const struct tutti_network_work *work);

/* The outputs of the last layer, [count][out_elements]: logits, or what targets are held against.
 */
const float *tutti_network_outputs(const struct tutti_network_work *work);

/* The gradient of the embedding in slices, word by word, once the backward pass of its layer has
 * ended: rows [count] and values [count][columns], the number of which comes back; none are written
 * if they are more than `capacity`. */
uint64_t tutti_network_slices(const struct tutti_network_work *work, uint64_t capacity,
                              int64_t *rows, float *values);

/* Layers in reverse order, after a whole forward pass of a training batch; with the weights that
 * forward had. Writes the layer's gradients, or adds them to what is there. NULL, of an embedding's
 * layer: slices are asked for. */
void tutti_network_backward(struct tutti_network_work *work, uint32_t layer, const float *weights,
                            float *gradients, bool add);

#endif
