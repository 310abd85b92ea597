/* U-Net: four stages down, four up, each up with what the stage on its level had, cut to its
 * size. */
#include "runtime/workload/image.h"

static void two_convs(struct tutti_build *b, uint64_t channels)
{
    tutti_image_conv_bias(
        b, (struct tutti_conv){"conv1", .kernel = 3, .channels = channels, .valid = true});
    tutti_image_conv_bias(
        b, (struct tutti_conv){"conv2", .kernel = 3, .channels = channels, .valid = true});
}

/* A transposed convolution of 2 x 2: each position becomes four, of half the channels. */
static void grow(struct tutti_build *b)
{
    struct tutti_feature_map in = b->frame;
    struct tutti_feature_map out = {2 * in.rows, 2 * in.columns, in.channels / 2};

    tutti_build_operation(
        b, (struct tutti_operation){.name = "grow",
                                    .kind = TUTTI_WORK_CONVOLUTION,
                                    .rows = in.rows * in.columns,
                                    .depth = in.channels,
                                    .columns = 4 * out.channels,
                                    .in_elements = tutti_feature_map_elements(in),
                                    .out_elements = tutti_feature_map_elements(out)});
    tutti_build_variable(b, (struct tutti_variable){.name = "grow",
                                                    .rows = 2,
                                                    .elements = 4 * in.channels * out.channels});
    tutti_build_variable(b, (struct tutti_variable){.name = "grow.bias",
                                                    .rows = out.channels,
                                                    .elements = out.channels});
    b->frame = out;
    tutti_image_activation(b, "grow.relu");
}

static void unet(struct tutti_build *b, const struct tutti_model_kind *kind)
{
    static const char *const down[] = {"down1", "down2", "down3", "down4"};
    static const char *const up[] = {"up1", "up2", "up3", "up4"};

    (void)kind;
    tutti_image_input(b, 1);
    for (int level = 0; level < 4; level++) {
        tutti_image_layer(b, down[level], 1);
        two_convs(b, (uint64_t)64 << level);
        tutti_image_pool(b, "pool", 2, 2, true);
    }
    tutti_image_layer(b, "bottom", 1);
    two_convs(b, 1024);
    for (int level = 3; level >= 0; level--) {
        struct tutti_fork fork = {.channels = (uint64_t)64 << level}; /* of the way down */

        tutti_image_layer(b, up[level], 1);
        grow(b);
        tutti_image_join(b, &fork);
        two_convs(b, (uint64_t)64 << level);
    }
    tutti_image_layer(b, "classes", 1);
    tutti_image_conv(
        b, (struct tutti_conv){"classes", .kernel = 1, .channels = b->classes, .bias = true});
    b->sample_bytes += 4 * b->frame.rows * b->frame.columns; /* a mask: a label of each pixel */
    tutti_image_loss(b);
}

static const struct tutti_model_kind kinds[] = {
    {.name = "unet",
     .summary = "U-Net, 572 x 572 pixels in, 388 x 388 out",
     .source = "Ronneberger et al. 2015, arXiv 1505.04597; NVIDIA's UNet_Medical",
     .sample = TUTTI_SAMPLE_IMAGE,
     .classes = 2,
     .image = 572,
     .image_min = 188,
     .examples = 30,
     .build = unet},
};

const struct tutti_model_family tutti_family_unet = {kinds, sizeof(kinds) / sizeof(kinds[0])};
