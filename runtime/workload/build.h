/* Appends layers, operations and variables to a model that is being written; everything lies in the
 * model's arena. Out of memory is noted and told at the end, so that an architecture reads as
 * one. */
#ifndef TUTTI_RUNTIME_WORKLOAD_BUILD_H
#define TUTTI_RUNTIME_WORKLOAD_BUILD_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/model.h"

struct tutti_arena;
struct tutti_build;

/* What the table of models has of one, and the sizes it has unless others are asked for: of these,
 * 0 is a size that the model does not have. */
struct tutti_model_kind {
    const char *name;
    const char *summary;
    const char *source;
    enum tutti_sample_kind sample;
    uint32_t sequence;
    uint32_t vocabulary;
    uint32_t vocabulary_min;       /* 0: 1 */
    uint32_t predictions_per_1000; /* tokens of a thousand that BERT hides and predicts */
    uint32_t classes;
    uint32_t image;
    uint32_t image_min;
    uint64_t examples;
    struct tutti_transformer transformer;
    bool asks_shape;   /* the transformer is what the caller says */
    const void *shape; /* the family's own */
    void (*build)(struct tutti_build *build, const struct tutti_model_kind *kind);
};

/* A family: models of one file. */
struct tutti_model_family {
    const struct tutti_model_kind *kinds;
    uint32_t kind_count;
};

extern const struct tutti_model_family tutti_family_mlp;
extern const struct tutti_model_family tutti_family_alexnet;
extern const struct tutti_model_family tutti_family_vgg;
extern const struct tutti_model_family tutti_family_inception;
extern const struct tutti_model_family tutti_family_resnet;
extern const struct tutti_model_family tutti_family_segment;
extern const struct tutti_model_family tutti_family_mobilenet;
extern const struct tutti_model_family tutti_family_unet;
extern const struct tutti_model_family tutti_family_efficientnet;
extern const struct tutti_model_family tutti_family_ssd;
extern const struct tutti_model_family tutti_family_detection;
extern const struct tutti_model_family tutti_family_bert;
extern const struct tutti_model_family tutti_family_gpt;
extern const struct tutti_model_family tutti_family_llama;
extern const struct tutti_model_family tutti_family_deepseek;
extern const struct tutti_model_family tutti_family_transformer_xl;
extern const struct tutti_model_family tutti_family_gnmt;
extern const struct tutti_model_family tutti_family_dlrm;
extern const struct tutti_model_family tutti_family_recommend;

/* What flows between the operations of an image model: so many rows and columns of so many
 * channels. */
struct tutti_feature_map {
    uint64_t rows;
    uint64_t columns;
    uint64_t channels;
};

/* A size of operations and variables that are stored one after the other. */
struct tutti_build_list {
    void *items;
    uint32_t count;
    uint32_t capacity;
};

struct tutti_build {
    struct tutti_arena *arena;
    struct tutti_build_list layers;
    struct tutti_build_list operations;
    struct tutti_build_list variables;
    bool no_memory;
    /* As asked for, or as the model is known. */
    uint64_t sequence;
    uint64_t vocabulary;
    uint64_t predictions;
    uint64_t classes;
    uint64_t image;
    struct tutti_transformer transformer;
    struct tutti_feature_map frame; /* what the operation added last has left (image.h) */
    /* For the family to say. */
    uint64_t sample_bytes;
    uint64_t logits;
};

/* A text in the arena; "" when memory ran out. */
__attribute__((format(printf, 2, 3))) const char *tutti_build_name(struct tutti_build *build,
                                                                   const char *format, ...);

/* Begins a layer of which there are `repeat`, with an input of so many elements; what is added from
 * now on is in it. `name` must live as long as the model. */
void tutti_build_layer(struct tutti_build *build, const char *name, uint32_t repeat,
                       uint64_t input_elements);
/* The layer that was begun last. */
struct tutti_layer *tutti_build_last(struct tutti_build *build);

/* Names must live as long as the model. A count of 0 is 1; `flops` of products are their shape's:
 * 2 x rows x depth x columns x count, of attention twice that (scores, and their use). */
void tutti_build_operation(struct tutti_build *build, struct tutti_operation operation);
uint64_t tutti_operation_flops(const struct tutti_operation *operation);
/* What a MATMUL of this shape reads and writes, without weights; 0 of others, whose shape does not
 * say it. */
uint64_t tutti_operation_in(const struct tutti_operation *operation);
uint64_t tutti_operation_out(const struct tutti_operation *operation);

/* A variable; rows of 0 is 1. */
void tutti_build_variable(struct tutti_build *build, struct tutti_variable variable);

/* y = x W + b of `rows` rows: the product and its variables, NAME and NAME.bias. */
struct tutti_dense {
    const char *name;
    enum tutti_split split;
    uint64_t rows;
    uint64_t depth;
    uint64_t columns;
    bool bias;
    bool first; /* no gradient of its input is needed */
};
void tutti_build_dense(struct tutti_build *build, struct tutti_dense dense);

/* An operation that is no product, from `in` to `out` elements. */
void tutti_build_step(struct tutti_build *build, const char *name, enum tutti_work_kind kind,
                      enum tutti_split split, uint64_t in_elements, uint64_t out_elements);

/* Of the last operation so many elements are of keys and values, and of the last variable (0: none)
 * so many make them. */
void tutti_build_kv(struct tutti_build *build, uint64_t elements, uint64_t trained);

/* Adds to what the last layer keeps. */
void tutti_build_save(struct tutti_build *build, struct tutti_saved saved);

/* Into the model what was added. -TUTTI_EINVAL: its sums are beyond 64 bits; -TUTTI_ENOMEM. */
int tutti_build_finish(struct tutti_build *build, struct tutti_workload *model,
                       struct tutti_err *err);

#endif
