/* EfficientNet: blocks that widen, filter each channel for itself, weigh the channels and narrow
 * again; of the second version, the first stages are one dense convolution of 3 x 3 instead. */
#include "runtime/workload/image.h"

struct stage {
    const char *first;
    const char *rest;
    uint32_t widen;
    uint32_t kernel;
    uint32_t stride; /* of the first block */
    uint32_t channels;
    uint32_t blocks;
    bool fused; /* widen and filter are one dense convolution, and channels are not weighed */
};

struct shape {
    const struct stage *stages;
    uint32_t stage_count;
    uint32_t stem;
    uint32_t last;
};

/* x / (1 + e^-x) needs its input for the backward pass; its output is the next convolution's. */
static void swish(struct tutti_build *b)
{
    tutti_build_save(b,
                     (struct tutti_saved){.whole_elements = tutti_feature_map_elements(b->frame)});
    tutti_image_activation(b, "swish");
}

static void conv_swish(struct tutti_build *b, struct tutti_conv conv)
{
    tutti_image_conv(b, conv);
    tutti_image_norm(b, tutti_build_name(b, "%s.norm", conv.name), true);
    swish(b);
}

/* Channels weighed by what a quarter as many as the block's input say of their means. */
static void squeeze(struct tutti_build *b, uint64_t squeezed)
{
    struct tutti_feature_map frame = b->frame;
    uint64_t elements = tutti_feature_map_elements(frame);

    tutti_image_global_pool(b);
    tutti_image_dense(b, "squeeze", squeezed);
    swish(b);
    tutti_image_dense(b, "excite", frame.channels);
    tutti_image_activation(b, "excite.sigmoid");
    b->frame = frame;
    tutti_build_step(b, "excite.scale", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE,
                     elements + frame.channels, elements);
    tutti_build_save(b, (struct tutti_saved){.whole_elements = elements});
}

static void block(struct tutti_build *b, const struct stage *stage, uint32_t stride)
{
    struct tutti_feature_map in = b->frame;
    uint32_t wide = (uint32_t)in.channels * stage->widen;

    if (stage->fused) {
        conv_swish(b, (struct tutti_conv){"expand", .kernel = stage->kernel, .stride = stride,
                                          .channels = stage->widen > 1 ? wide : stage->channels});
    } else {
        if (stage->widen > 1)
            conv_swish(b, (struct tutti_conv){"expand", .kernel = 1, .channels = wide});
        conv_swish(b, (struct tutti_conv){"depthwise", .kernel = stage->kernel, .stride = stride,
                                          .groups = wide, .channels = wide});
        squeeze(b, in.channels / 4 > 0 ? in.channels / 4 : 1);
    }
    if (!stage->fused || stage->widen > 1) {
        tutti_image_conv(b,
                         (struct tutti_conv){"project", .kernel = 1, .channels = stage->channels});
        tutti_image_norm(b, "project.norm", true);
    }
    if (stride == 1 && in.channels == stage->channels)
        tutti_image_add(b, "sum");
    /* The next block's convolution reads what no activation function has written. */
    tutti_build_save(b,
                     (struct tutti_saved){.whole_elements = tutti_feature_map_elements(b->frame)});
}

static void efficientnet(struct tutti_build *b, const struct tutti_model_kind *kind)
{
    const struct shape *shape = kind->shape;

    tutti_image_input(b, 3);
    tutti_image_layer(b, "stem", 1);
    conv_swish(b, (struct tutti_conv){"stem", .kernel = 3, .stride = 2, .channels = shape->stem});
    for (uint32_t s = 0; s < shape->stage_count; s++) {
        const struct stage *stage = &shape->stages[s];

        tutti_image_layer(b, stage->first, 1);
        block(b, stage, stage->stride);
        if (stage->blocks == 1)
            continue;
        tutti_image_layer(b, stage->rest, stage->blocks - 1);
        block(b, stage, 1);
    }
    tutti_image_layer(b, "classes", 1);
    conv_swish(b, (struct tutti_conv){"last", .kernel = 1, .channels = shape->last});
    tutti_image_global_pool(b);
    tutti_image_dropout(b, "dropout");
    tutti_image_dense(b, "classes", b->classes);
    tutti_image_loss(b);
}

static const struct stage b0[] = {
    {"stage1.first", "stage1.block", 1, 3, 1, 16, 1, false},
    {"stage2.first", "stage2.block", 6, 3, 2, 24, 2, false},
    {"stage3.first", "stage3.block", 6, 5, 2, 40, 2, false},
    {"stage4.first", "stage4.block", 6, 3, 2, 80, 3, false},
    {"stage5.first", "stage5.block", 6, 5, 1, 112, 3, false},
    {"stage6.first", "stage6.block", 6, 5, 2, 192, 4, false},
    {"stage7.first", "stage7.block", 6, 3, 1, 320, 1, false},
};

/* b0 1.4 times as wide, to a multiple of 8, and 1.8 times as deep. */
static const struct stage b4[] = {
    {"stage1.first", "stage1.block", 1, 3, 1, 24, 2, false},
    {"stage2.first", "stage2.block", 6, 3, 2, 32, 4, false},
    {"stage3.first", "stage3.block", 6, 5, 2, 56, 4, false},
    {"stage4.first", "stage4.block", 6, 3, 2, 112, 6, false},
    {"stage5.first", "stage5.block", 6, 5, 1, 160, 6, false},
    {"stage6.first", "stage6.block", 6, 5, 2, 272, 8, false},
    {"stage7.first", "stage7.block", 6, 3, 1, 448, 2, false},
};

static const struct stage v2_s[] = {
    {"stage1.first", "stage1.block", 1, 3, 1, 24, 2, true},
    {"stage2.first", "stage2.block", 4, 3, 2, 48, 4, true},
    {"stage3.first", "stage3.block", 4, 3, 2, 64, 4, true},
    {"stage4.first", "stage4.block", 4, 3, 2, 128, 6, false},
    {"stage5.first", "stage5.block", 6, 3, 1, 160, 9, false},
    {"stage6.first", "stage6.block", 6, 3, 2, 256, 15, false},
};

#define EFFICIENTNET(model, words, from, table, stem_channels, last_channels, pixels)            \
    {                                                                                            \
        .name = model, .summary = words, .source = from, .sample = TUTTI_SAMPLE_IMAGE,           \
        .classes = 1000, .image = pixels, .image_min = 32, .examples = 1281167,                  \
        .shape = &(const struct shape){table, sizeof(table) / sizeof((table)[0]), stem_channels, \
                                       last_channels},                                           \
        .build = efficientnet                                                                    \
    }

#define V1 "Tan, Le 2019, arXiv 1905.11946"
#define V2 "Tan, Le 2021, arXiv 2104.00298; as in torchvision"

static const struct tutti_model_kind kinds[] = {
    EFFICIENTNET("efficientnet-b0", "EfficientNet-B0", V1, b0, 32, 1280, 224),
    EFFICIENTNET("efficientnet-b4", "EfficientNet-B4", V1, b4, 48, 1792, 380),
    EFFICIENTNET("efficientnetv2-s", "EfficientNetV2-S", V2, v2_s, 24, 1280, 300),
};

const struct tutti_model_family tutti_family_efficientnet = {kinds,
                                                             sizeof(kinds) / sizeof(kinds[0])};
