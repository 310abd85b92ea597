/* VGG: convolutions of 3 x 3 in five stages, without batch normalisation, and three dense
 * layers. */
#include "runtime/workload/image.h"

struct shape {
    uint32_t convolutions[5]; /* of each stage */
};

static void vgg(struct tutti_build *b, const struct tutti_model_kind *kind)
{
    static const char *const stages[] = {"stage1", "stage2", "stage3", "stage4", "stage5"};
    static const char *const convolutions[] = {"conv1", "conv2", "conv3", "conv4"};
    static const uint64_t channels[] = {64, 128, 256, 512, 512};
    const struct shape *shape = kind->shape;

    tutti_image_input(b, 3);
    for (int s = 0; s < 5; s++) {
        tutti_image_layer(b, stages[s], 1);
        for (uint32_t i = 0; i < shape->convolutions[s]; i++)
            tutti_image_conv_bias(
                b, (struct tutti_conv){convolutions[i], .kernel = 3, .channels = channels[s]});
        tutti_image_pool(b, "pool", 2, 2, true);
    }
    tutti_image_flatten(b);
    for (int i = 6; i <= 7; i++) {
        const char *name = i == 6 ? "dense6" : "dense7";

        tutti_image_layer(b, name, 1);
        tutti_image_dense(b, name, 4096);
        tutti_image_activation(b, "relu");
        tutti_image_dropout(b, "dropout");
    }
    tutti_image_layer(b, "dense8", 1);
    tutti_image_dense(b, "dense8", b->classes);
    tutti_image_loss(b);
}

#define VGG(layers, c1, c2, c3, c4, c5)                                                         \
    {                                                                                           \
        .name = "vgg" #layers, .summary = "VGG of " #layers " layers with weights",             \
        .source = "Simonyan, Zisserman 2014, arXiv 1409.1556, configuration D (16), E",         \
        .sample = TUTTI_SAMPLE_IMAGE, .classes = 1000, .image = 224, .image_min = 32,           \
        .examples = 1281167, .shape = &(const struct shape){{c1, c2, c3, c4, c5}}, .build = vgg \
    }

static const struct tutti_model_kind kinds[] = {
    VGG(16, 2, 2, 3, 3, 3),
    VGG(19, 2, 2, 4, 4, 4),
};

const struct tutti_model_family tutti_family_vgg = {kinds, sizeof(kinds) / sizeof(kinds[0])};
