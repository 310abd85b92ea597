/* MobileNetV2: blocks that widen, filter each channel for itself, and narrow again. */
#include "runtime/workload/image.h"

/* Where width and size stay, the input is added. */
static void block(struct tutti_build *b, uint64_t widen, uint64_t channels, uint32_t stride)
{
    struct tutti_feature_map in = b->frame;
    uint32_t wide = (uint32_t)(in.channels * widen);

    if (widen > 1)
        tutti_image_conv_norm(b, (struct tutti_conv){"expand", .kernel = 1, .channels = wide},
                              true);
    tutti_image_conv_norm(b,
                          (struct tutti_conv){"depthwise", .kernel = 3, .stride = stride,
                                              .groups = wide, .channels = wide},
                          true);
    tutti_image_conv(b, (struct tutti_conv){"project", .kernel = 1, .channels = channels});
    tutti_image_norm(b, "project.norm", true);
    if (stride == 1 && in.channels == channels)
        tutti_image_add(b, "sum");
    /* The next block's convolution reads what no activation function has written. */
    tutti_build_save(b,
                     (struct tutti_saved){.whole_elements = tutti_feature_map_elements(b->frame)});
}

static void mobilenet_v2(struct tutti_build *b, const struct tutti_model_kind *kind)
{
    static const struct {
        const char *first;
        const char *rest;
        uint64_t widen;
        uint64_t channels;
        uint32_t blocks;
        uint32_t stride; /* of the first block */
    } stages[] = {
        {"stage1", NULL, 1, 16, 1, 1},
        {"stage2.first", "stage2.block", 6, 24, 2, 2},
        {"stage3.first", "stage3.block", 6, 32, 3, 2},
        {"stage4.first", "stage4.block", 6, 64, 4, 2},
        {"stage5.first", "stage5.block", 6, 96, 3, 1},
        {"stage6.first", "stage6.block", 6, 160, 3, 2},
        {"stage7", NULL, 6, 320, 1, 1},
    };

    (void)kind;
    tutti_image_input(b, 3);
    tutti_image_layer(b, "conv1", 1);
    tutti_image_conv_norm(b, (struct tutti_conv){"conv1", .kernel = 3, .stride = 2, .channels = 32},
                          true);
    for (unsigned s = 0; s < sizeof(stages) / sizeof(stages[0]); s++) {
        tutti_image_layer(b, stages[s].first, 1);
        block(b, stages[s].widen, stages[s].channels, stages[s].stride);
        if (stages[s].blocks == 1)
            continue;
        tutti_image_layer(b, stages[s].rest, stages[s].blocks - 1);
        block(b, stages[s].widen, stages[s].channels, 1);
    }
    tutti_image_layer(b, "classes", 1);
    tutti_image_conv_norm(b, (struct tutti_conv){"conv9", .kernel = 1, .channels = 1280}, true);
    tutti_image_global_pool(b);
    tutti_image_dense(b, "classes", b->classes);
    tutti_image_loss(b);
}

static const struct tutti_model_kind kinds[] = {
    {.name = "mobilenetv2",
     .summary = "MobileNetV2 of width 1",
     .source = "Sandler et al. 2018, arXiv 1801.04381",
     .sample = TUTTI_SAMPLE_IMAGE,
     .classes = 1000,
     .image = 224,
     .image_min = 32,
     .examples = 1281167,
     .build = mobilenet_v2},
};

const struct tutti_model_family tutti_family_mobilenet = {kinds, sizeof(kinds) / sizeof(kinds[0])};
