/* ResNet and those made of it: blocks of two or three convolutions with a sum around them, in four
 * stages; ResNeXt (grouped convolutions) and SE-ResNeXt (channels weighted by what is in them). */
#include "runtime/workload/resnet.h"

static void conv_norm(struct tutti_build *b, struct tutti_conv conv)
{
    tutti_image_conv(b, conv);
    tutti_image_norm(b, tutti_build_name(b, "%s.norm", conv.name), true);
}

static void squeeze(struct tutti_build *b)
{
    struct tutti_feature_map frame = b->frame;
    uint64_t elements = tutti_feature_map_elements(frame);

    tutti_build_save(b, (struct tutti_saved){.whole_elements = elements});
    tutti_image_global_pool(b);
    tutti_image_dense(b, "squeeze", frame.channels / 16);
    tutti_image_activation(b, "squeeze.relu");
    tutti_image_dense(b, "excite", frame.channels);
    tutti_image_activation(b, "excite.sigmoid");
    b->frame = frame;
    tutti_build_step(b, "excite.scale", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE,
                     elements + frame.channels, elements);
}

/* The first block of a stage changes the size, and so does its shortcut where it must. */
static void block(struct tutti_build *b, const struct tutti_resnet *shape, uint64_t width,
                  uint32_t stride)
{
    uint64_t out = shape->basic ? width : 4 * width;
    uint64_t mid = shape->base_width == 0 ? width : width / 64 * shape->base_width * shape->groups;
    struct tutti_feature_map in = b->frame;
    struct tutti_feature_map done;

    if (shape->basic) {
        tutti_image_conv_norm(
            b, (struct tutti_conv){"conv1", .kernel = 3, .stride = stride, .channels = width},
            true);
        conv_norm(b, (struct tutti_conv){"conv2", .kernel = 3, .channels = width});
    } else {
        tutti_image_conv_norm(b,
                              (struct tutti_conv){"conv1", .kernel = 1,
                                                  .stride = shape->stride_first ? stride : 1,
                                                  .channels = mid},
                              true);
        tutti_image_conv_norm(b,
                              (struct tutti_conv){"conv2", .kernel = 3,
                                                  .stride = shape->stride_first ? 1 : stride,
                                                  .groups = shape->groups, .channels = mid},
                              true);
        conv_norm(b, (struct tutti_conv){"conv3", .kernel = 1, .channels = out});
    }
    if (shape->squeezes)
        squeeze(b);
    done = b->frame;
    if (in.channels != out || stride != 1) {
        b->frame = in;
        conv_norm(b,
                  (struct tutti_conv){"shortcut", .kernel = 1, .stride = stride, .channels = out});
    }
    b->frame = done;
    tutti_image_add(b, "sum");
    tutti_image_activation(b, "relu");
}

void tutti_resnet_trunk(struct tutti_build *b, const struct tutti_resnet *shape, unsigned end,
                        uint32_t last_stride)
{
    static const char *const first[] = {"conv2.first", "conv3.first", "conv4.first", "conv5.first"};
    static const char *const rest[] = {"conv2.block", "conv3.block", "conv4.block", "conv5.block"};

    tutti_image_layer(b, "conv1", 1);
    tutti_image_conv_norm(b, (struct tutti_conv){"conv1", .kernel = 7, .stride = 2, .channels = 64},
                          true);
    tutti_image_pool(b, "pool", 3, 2, false);
    for (unsigned s = 0; s < end; s++) {
        uint32_t stride = s == 0 ? 1 : s + 1 == end ? last_stride : 2;

        tutti_image_layer(b, first[s], 1);
        block(b, shape, (uint64_t)64 << s, stride);
        tutti_image_layer(b, rest[s], shape->blocks[s] - 1);
        block(b, shape, (uint64_t)64 << s, 1);
    }
}

static void resnet(struct tutti_build *b, const struct tutti_model_kind *kind)
{
    tutti_image_input(b, 3);
    tutti_resnet_trunk(b, kind->shape, 4, 2);
    tutti_image_layer(b, "classes", 1);
    tutti_image_global_pool(b);
    tutti_image_dense(b, "classes", b->classes);
    tutti_image_loss(b);
}

#define RESNET(model, words, from, ...)                                                \
    {                                                                                  \
        .name = model, .summary = words, .source = from, .sample = TUTTI_SAMPLE_IMAGE, \
        .classes = 1000, .image = 224, .image_min = 32, .examples = 1281167,           \
        .shape = &(const struct tutti_resnet){.blocks = __VA_ARGS__}, .build = resnet  \
    }

#define HE    "He et al. 2015, arXiv 1512.03385"
#define HE_15 HE "; the stride in the 3 x 3 convolution, as in NVIDIA's examples and MLPerf"
#define HE_1  HE "; the stride in the first 1 x 1 convolution, as in Keras and tf_cnn_benchmarks"

static const struct tutti_model_kind kinds[] = {
    RESNET("resnet18", "ResNet-18", HE, {2, 2, 2, 2}, .basic = true),
    RESNET("resnet34", "ResNet-34", HE, {3, 4, 6, 3}, .basic = true),
    RESNET("resnet50", "ResNet-50 v1.5", HE_15, {3, 4, 6, 3}),
    RESNET("resnet101", "ResNet-101 v1.5", HE_15, {3, 4, 23, 3}),
    RESNET("resnet152", "ResNet-152 v1.5", HE_15, {3, 8, 36, 3}),
    RESNET("resnet50-v1", "ResNet-50 v1", HE_1, {3, 4, 6, 3}, .stride_first = true),
    RESNET("resnet101-v1", "ResNet-101 v1", HE_1, {3, 4, 23, 3}, .stride_first = true),
    RESNET("resnet152-v1", "ResNet-152 v1", HE_1, {3, 8, 36, 3}, .stride_first = true),
    RESNET("resnext101", "ResNeXt-101, 32 groups of 4 channels",
           "Xie et al. 2016, arXiv 1611.05431", {3, 4, 23, 3}, .groups = 32, .base_width = 4),
    RESNET("se-resnext101", "SE-ResNeXt-101, 32 groups of 4 channels",
           "Hu et al. 2017, arXiv 1709.01507; Xie et al. 2016", {3, 4, 23, 3}, .groups = 32,
           .base_width = 4, .squeezes = true),
};

const struct tutti_model_family tutti_family_resnet = {kinds, sizeof(kinds) / sizeof(kinds[0])};
