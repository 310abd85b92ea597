/* AlexNet on one device: five convolutions, three dense layers that hold nearly all parameters. */
#include "runtime/workload/image.h"

static void alexnet(struct tutti_build *b, const struct tutti_model_kind *kind)
{
    (void)kind;
    tutti_image_input(b, 3);
    tutti_image_layer(b, "conv1", 1);
    tutti_image_conv_bias(b, (struct tutti_conv){"conv1", .kernel = 11, .stride = 4, .channels = 64,
                                                 .valid = true, .pad = 2});
    tutti_image_pool(b, "pool1", 3, 2, true);
    tutti_image_layer(b, "conv2", 1);
    tutti_image_conv_bias(b, (struct tutti_conv){"conv2", .kernel = 5, .channels = 192});
    tutti_image_pool(b, "pool2", 3, 2, true);
    tutti_image_layer(b, "conv3", 1);
    tutti_image_conv_bias(b, (struct tutti_conv){"conv3", .kernel = 3, .channels = 384});
    tutti_image_layer(b, "conv4", 1);
    tutti_image_conv_bias(b, (struct tutti_conv){"conv4", .kernel = 3, .channels = 256});
    tutti_image_layer(b, "conv5", 1);
    tutti_image_conv_bias(b, (struct tutti_conv){"conv5", .kernel = 3, .channels = 256});
    tutti_image_pool(b, "pool5", 3, 2, true);
    tutti_image_flatten(b);
    for (int i = 6; i <= 7; i++) {
        const char *name = i == 6 ? "dense6" : "dense7";

        tutti_image_layer(b, name, 1);
        tutti_image_dropout(b, "dropout");
        tutti_image_dense(b, name, 4096);
        tutti_image_activation(b, "relu");
    }
    tutti_image_layer(b, "dense8", 1);
    tutti_image_dense(b, "dense8", b->classes);
    tutti_image_loss(b);
}

static const struct tutti_model_kind kinds[] = {
    {.name = "alexnet",
     .summary = "AlexNet in one tower",
     .source = "Krizhevsky, One weird trick, 2014, arXiv 1404.5997; as in torchvision",
     .sample = TUTTI_SAMPLE_IMAGE,
     .classes = 1000,
     .image = 224,
     .image_min = 63,
     .examples = 1281167,
     .build = alexnet},
};

const struct tutti_model_family tutti_family_alexnet = {kinds, sizeof(kinds) / sizeof(kinds[0])};
