/* Inception v3 and v4: blocks of parallel branches; batch normalisation without a scale. Without
 * the auxiliary classifier, as Keras and tf_cnn_benchmarks train it. */
#include "runtime/workload/image.h"

/* Convolution, batch normalisation, activation: all of the network is made of them. */
static void conv(struct tutti_build *b, const char *name, uint32_t rows, uint32_t columns,
                 uint64_t channels)
{
    tutti_image_conv_norm(
        b,
        (struct tutti_conv){
            .name = name, .kernel = rows, .kernel_columns = columns, .channels = channels},
        false);
}

/* Without padding. */
static void conv_valid(struct tutti_build *b, const char *name, uint32_t stride, uint64_t channels)
{
    tutti_image_conv_norm(
        b,
        (struct tutti_conv){
            .name = name, .kernel = 3, .stride = stride, .channels = channels, .valid = true},
        false);
}

static void stem(struct tutti_build *b)
{
    tutti_image_layer(b, "stem1", 1);
    conv_valid(b, "conv1", 2, 32);
    conv_valid(b, "conv2", 1, 32);
    conv(b, "conv3", 3, 3, 64);
    tutti_image_pool(b, "pool1", 3, 2, true);
    tutti_image_layer(b, "stem2", 1);
    conv(b, "conv4", 1, 1, 80);
    conv_valid(b, "conv5", 1, 192);
    tutti_image_pool(b, "pool2", 3, 2, true);
}

/* 35 x 35 positions of an image of 299 x 299. */
static void mixed_35(struct tutti_build *b, const char *name, uint32_t repeat, uint64_t pooled)
{
    struct tutti_fork fork = tutti_image_fork(b);

    tutti_image_layer(b, name, repeat);
    conv(b, "branch1x1", 1, 1, 64);
    tutti_image_branch(b, &fork);
    conv(b, "branch5x5.1", 1, 1, 48);
    conv(b, "branch5x5.2", 5, 5, 64);
    tutti_image_branch(b, &fork);
    conv(b, "branch3x3.1", 1, 1, 64);
    conv(b, "branch3x3.2", 3, 3, 96);
    conv(b, "branch3x3.3", 3, 3, 96);
    tutti_image_branch(b, &fork);
    tutti_image_pool(b, "pool", 3, 1, false);
    conv(b, "branchpool", 1, 1, pooled);
    tutti_image_join(b, &fork);
}

/* From 35 x 35 to 17 x 17 positions. */
static void mixed_35_to_17(struct tutti_build *b)
{
    struct tutti_fork fork = tutti_image_fork(b);

    tutti_image_layer(b, "mixed3", 1);
    conv_valid(b, "branch3x3", 2, 384);
    tutti_image_branch(b, &fork);
    conv(b, "branchdouble.1", 1, 1, 64);
    conv(b, "branchdouble.2", 3, 3, 96);
    conv_valid(b, "branchdouble.3", 2, 96);
    tutti_image_branch(b, &fork);
    tutti_image_pool(b, "pool", 3, 2, true);
    tutti_image_join(b, &fork);
}

/* 17 x 17: convolutions of 7 x 7 in two. */
static void mixed_17(struct tutti_build *b, const char *name, uint32_t repeat, uint64_t channels)
{
    struct tutti_fork fork = tutti_image_fork(b);

    tutti_image_layer(b, name, repeat);
    conv(b, "branch1x1", 1, 1, 192);
    tutti_image_branch(b, &fork);
    conv(b, "branch7x7.1", 1, 1, channels);
    conv(b, "branch7x7.2", 1, 7, channels);
    conv(b, "branch7x7.3", 7, 1, 192);
    tutti_image_branch(b, &fork);
    conv(b, "branchdouble.1", 1, 1, channels);
    conv(b, "branchdouble.2", 7, 1, channels);
    conv(b, "branchdouble.3", 1, 7, channels);
    conv(b, "branchdouble.4", 7, 1, channels);
    conv(b, "branchdouble.5", 1, 7, 192);
    tutti_image_branch(b, &fork);
    tutti_image_pool(b, "pool", 3, 1, false);
    conv(b, "branchpool", 1, 1, 192);
    tutti_image_join(b, &fork);
}

/* From 17 x 17 to 8 x 8 positions. */
static void mixed_17_to_8(struct tutti_build *b)
{
    struct tutti_fork fork = tutti_image_fork(b);

    tutti_image_layer(b, "mixed8", 1);
    conv(b, "branch3x3.1", 1, 1, 192);
    conv_valid(b, "branch3x3.2", 2, 320);
    tutti_image_branch(b, &fork);
    conv(b, "branch7x7.1", 1, 1, 192);
    conv(b, "branch7x7.2", 1, 7, 192);
    conv(b, "branch7x7.3", 7, 1, 192);
    conv_valid(b, "branch7x7.4", 2, 192);
    tutti_image_branch(b, &fork);
    tutti_image_pool(b, "pool", 3, 2, true);
    tutti_image_join(b, &fork);
}

/* Two convolutions of one frame, 1 x 3 and 3 x 1, side by side. */
static void spread(struct tutti_build *b, const char *name, uint64_t channels)
{
    struct tutti_fork fork = tutti_image_fork(b);

    conv(b, tutti_build_name(b, "%s.1x3", name), 1, 3, channels);
    tutti_image_branch(b, &fork);
    conv(b, tutti_build_name(b, "%s.3x1", name), 3, 1, channels);
    b->frame.channels += fork.channels; /* joined with the other branches, below */
}

static void mixed_8(struct tutti_build *b, const char *name)
{
    struct tutti_fork fork = tutti_image_fork(b);

    tutti_image_layer(b, name, 1);
    conv(b, "branch1x1", 1, 1, 320);
    tutti_image_branch(b, &fork);
    conv(b, "branch3x3.1", 1, 1, 384);
    spread(b, "branch3x3.2", 384);
    tutti_image_branch(b, &fork);
    conv(b, "branchdouble.1", 1, 1, 448);
    conv(b, "branchdouble.2", 3, 3, 384);
    spread(b, "branchdouble.3", 384);
    tutti_image_branch(b, &fork);
    tutti_image_pool(b, "pool", 3, 1, false);
    conv(b, "branchpool", 1, 1, 192);
    tutti_image_join(b, &fork);
}

static void inception3(struct tutti_build *b, const struct tutti_model_kind *kind)
{
    (void)kind;
    tutti_image_input(b, 3);
    stem(b);
    mixed_35(b, "mixed0", 1, 32);
    mixed_35(b, "mixed1", 1, 64);
    mixed_35(b, "mixed2", 1, 64);
    mixed_35_to_17(b);
    mixed_17(b, "mixed4", 1, 128);
    mixed_17(b, "mixed5", 2, 160);
    mixed_17(b, "mixed7", 1, 192);
    mixed_17_to_8(b);
    mixed_8(b, "mixed9");
    mixed_8(b, "mixed10");
    tutti_image_layer(b, "classes", 1);
    tutti_image_global_pool(b);
    tutti_image_dense(b, "classes", b->classes);
    tutti_image_loss(b);
}

/* ---- Inception v4: a stem with branches, more and more even blocks --------------------------- */

static void stem4(struct tutti_build *b)
{
    struct tutti_fork fork;

    tutti_image_layer(b, "stem1", 1);
    conv_valid(b, "conv1", 2, 32);
    conv_valid(b, "conv2", 1, 32);
    conv(b, "conv3", 3, 3, 64);
    fork = tutti_image_fork(b);
    tutti_image_pool(b, "pool1", 3, 2, true);
    tutti_image_branch(b, &fork);
    conv_valid(b, "conv4", 2, 96);
    tutti_image_join(b, &fork);
    tutti_image_layer(b, "stem2", 1);
    fork = tutti_image_fork(b);
    conv(b, "branch3x3.1", 1, 1, 64);
    conv_valid(b, "branch3x3.2", 1, 96);
    tutti_image_branch(b, &fork);
    conv(b, "branch7x7.1", 1, 1, 64);
    conv(b, "branch7x7.2", 1, 7, 64);
    conv(b, "branch7x7.3", 7, 1, 64);
    conv_valid(b, "branch7x7.4", 1, 96);
    tutti_image_join(b, &fork);
    tutti_image_layer(b, "stem3", 1);
    fork = tutti_image_fork(b);
    conv_valid(b, "conv5", 2, 192);
    tutti_image_branch(b, &fork);
    tutti_image_pool(b, "pool2", 3, 2, true);
    tutti_image_join(b, &fork);
}

static void mixed4_35(struct tutti_build *b)
{
    struct tutti_fork fork = tutti_image_fork(b);

    tutti_image_layer(b, "mixed35", 4);
    conv(b, "branch1x1", 1, 1, 96);
    tutti_image_branch(b, &fork);
    conv(b, "branch3x3.1", 1, 1, 64);
    conv(b, "branch3x3.2", 3, 3, 96);
    tutti_image_branch(b, &fork);
    conv(b, "branchdouble.1", 1, 1, 64);
    conv(b, "branchdouble.2", 3, 3, 96);
    conv(b, "branchdouble.3", 3, 3, 96);
    tutti_image_branch(b, &fork);
    tutti_image_pool(b, "pool", 3, 1, false);
    conv(b, "branchpool", 1, 1, 96);
    tutti_image_join(b, &fork);
}

static void reduce4_35(struct tutti_build *b)
{
    struct tutti_fork fork = tutti_image_fork(b);

    tutti_image_layer(b, "reduce35", 1);
    conv_valid(b, "branch3x3", 2, 384);
    tutti_image_branch(b, &fork);
    conv(b, "branchdouble.1", 1, 1, 192);
    conv(b, "branchdouble.2", 3, 3, 224);
    conv_valid(b, "branchdouble.3", 2, 256);
    tutti_image_branch(b, &fork);
    tutti_image_pool(b, "pool", 3, 2, true);
    tutti_image_join(b, &fork);
}

static void mixed4_17(struct tutti_build *b)
{
    struct tutti_fork fork = tutti_image_fork(b);

    tutti_image_layer(b, "mixed17", 7);
    conv(b, "branch1x1", 1, 1, 384);
    tutti_image_branch(b, &fork);
    conv(b, "branch7x7.1", 1, 1, 192);
    conv(b, "branch7x7.2", 1, 7, 224);
    conv(b, "branch7x7.3", 7, 1, 256);
    tutti_image_branch(b, &fork);
    conv(b, "branchdouble.1", 1, 1, 192);
    conv(b, "branchdouble.2", 7, 1, 192);
    conv(b, "branchdouble.3", 1, 7, 224);
    conv(b, "branchdouble.4", 7, 1, 224);
    conv(b, "branchdouble.5", 1, 7, 256);
    tutti_image_branch(b, &fork);
    tutti_image_pool(b, "pool", 3, 1, false);
    conv(b, "branchpool", 1, 1, 128);
    tutti_image_join(b, &fork);
}

static void reduce4_17(struct tutti_build *b)
{
    struct tutti_fork fork = tutti_image_fork(b);

    tutti_image_layer(b, "reduce17", 1);
    conv(b, "branch3x3.1", 1, 1, 192);
    conv_valid(b, "branch3x3.2", 2, 192);
    tutti_image_branch(b, &fork);
    conv(b, "branch7x7.1", 1, 1, 256);
    conv(b, "branch7x7.2", 1, 7, 256);
    conv(b, "branch7x7.3", 7, 1, 320);
    conv_valid(b, "branch7x7.4", 2, 320);
    tutti_image_branch(b, &fork);
    tutti_image_pool(b, "pool", 3, 2, true);
    tutti_image_join(b, &fork);
}

static void mixed4_8(struct tutti_build *b)
{
    struct tutti_fork fork = tutti_image_fork(b);

    tutti_image_layer(b, "mixed8", 3);
    conv(b, "branch1x1", 1, 1, 256);
    tutti_image_branch(b, &fork);
    conv(b, "branch3x3.1", 1, 1, 384);
    spread(b, "branch3x3.2", 256);
    tutti_image_branch(b, &fork);
    conv(b, "branchdouble.1", 1, 1, 384);
    conv(b, "branchdouble.2", 3, 1, 448);
    conv(b, "branchdouble.3", 1, 3, 512);
    spread(b, "branchdouble.4", 256);
    tutti_image_branch(b, &fork);
    tutti_image_pool(b, "pool", 3, 1, false);
    conv(b, "branchpool", 1, 1, 256);
    tutti_image_join(b, &fork);
}

static void inception4(struct tutti_build *b, const struct tutti_model_kind *kind)
{
    (void)kind;
    tutti_image_input(b, 3);
    stem4(b);
    mixed4_35(b);
    reduce4_35(b);
    mixed4_17(b);
    reduce4_17(b);
    mixed4_8(b);
    tutti_image_layer(b, "classes", 1);
    tutti_image_global_pool(b);
    tutti_image_dropout(b, "dropout");
    tutti_image_dense(b, "classes", b->classes);
    tutti_image_loss(b);
}

static const struct tutti_model_kind kinds[] = {
    {.name = "inception3",
     .summary = "Inception v3, no auxiliary classifier",
     .source = "Szegedy et al. 2015, arXiv 1512.00567; as in Keras",
     .sample = TUTTI_SAMPLE_IMAGE,
     .classes = 1000,
     .image = 299,
     .image_min = 75,
     .examples = 1281167,
     .build = inception3},
    {.name = "inception4",
     .summary = "Inception v4",
     .source = "Szegedy et al. 2016, arXiv 1602.07261",
     .sample = TUTTI_SAMPLE_IMAGE,
     .classes = 1000,
     .image = 299,
     .image_min = 75,
     .examples = 1281167,
     .build = inception4},
};

const struct tutti_model_family tutti_family_inception = {kinds, sizeof(kinds) / sizeof(kinds[0])};
