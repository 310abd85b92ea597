/* SSD300 on the first three stages of ResNet-50: boxes of six sizes of features, the coarser of
 * which are made by blocks of two convolutions. */
#include "runtime/workload/resnet.h"

enum { SIZES = 6 };

/* Places and classes of the boxes at each position of the frame, which stays as it is. */
static uint64_t boxes(struct tutti_build *b, unsigned index, uint64_t boxes_each)
{
    struct tutti_feature_map frame = b->frame;
    uint64_t elements;

    tutti_image_conv(b, (struct tutti_conv){.name = tutti_build_name(b, "place%u", index),
                                            .kernel = 3,
                                            .channels = 4 * boxes_each,
                                            .bias = true});
    elements = tutti_feature_map_elements(b->frame);
    b->frame = frame;
    tutti_image_conv(b, (struct tutti_conv){.name = tutti_build_name(b, "class%u", index),
                                            .kernel = 3,
                                            .channels = b->classes * boxes_each,
                                            .bias = true});
    elements += tutti_feature_map_elements(b->frame);
    b->frame = frame;
    return elements;
}

static void ssd300(struct tutti_build *b, const struct tutti_model_kind *kind)
{
    static const uint64_t counts[SIZES] = {4, 6, 6, 6, 4, 4};
    static const uint64_t squeezed[SIZES] = {0, 256, 256, 128, 128, 128};
    static const uint64_t channels[SIZES] = {0, 512, 512, 256, 256, 256};
    uint64_t logits;

    tutti_image_input(b, 3);
    tutti_resnet_trunk(b, kind->shape, 3, 1);
    tutti_image_layer(b, "boxes", 1);
    logits = boxes(b, 0, counts[0]);
    for (unsigned i = 1; i < SIZES; i++) {
        bool halves = i < 4; /* else two positions less, without padding */

        tutti_image_conv_norm(b,
                              (struct tutti_conv){.name = tutti_build_name(b, "more%u.1", i),
                                                  .kernel = 1,
                                                  .channels = squeezed[i]},
                              true);
        tutti_image_conv_norm(b,
                              (struct tutti_conv){.name = tutti_build_name(b, "more%u.2", i),
                                                  .kernel = 3,
                                                  .stride = halves ? 2 : 1,
                                                  .channels = channels[i],
                                                  .valid = !halves},
                              true);
        logits += boxes(b, i, counts[i]);
    }
    tutti_build_step(b, "loss", TUTTI_WORK_LOSS, TUTTI_SPLIT_NONE, logits, 2);
    b->logits = logits;
}

static const struct tutti_model_kind kinds[] = {
    {.name = "ssd300-r50",
     .summary = "SSD300 on ResNet-50, 8732 boxes",
     .source = "Liu et al. 2015, arXiv 1512.02325; as in NVIDIA's PyTorch example",
     .sample = TUTTI_SAMPLE_IMAGE,
     .classes = 81,
     .image = 300,
     .image_min = 260,
     .examples = 117266,
     .shape = &(const struct tutti_resnet){.blocks = {3, 4, 6, 3}},
     .build = ssd300},
};

const struct tutti_model_family tutti_family_ssd = {kinds, sizeof(kinds) / sizeof(kinds[0])};
