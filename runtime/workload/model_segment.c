/* Segmenters of NVIDIA's examples beside U-Net: of volumes (U-Net 3D, nnU-Net, V-Net), of patches
 * (nnU-Net) and of textures (U-Net Industrial). A feature map has its positions in `rows`, whatever
 * axes they lie along; each stage halves them all. */
#include "runtime/workload/image.h"

enum norm { NONE, INSTANCE, BATCH };

struct shape {
    uint32_t axes;
    uint32_t stages; /* halvings of the size */
    uint64_t filters[6];
    uint64_t input_channels;
    uint32_t last_kernel; /* of the classes' convolution */
    enum norm norm;
    uint32_t wide; /* of 12, how wide an image is that is 12 high; 0: as wide */
};

static uint64_t size(const struct tutti_build *b)
{
    return tutti_feature_map_elements(b->frame);
}

static void keep(struct tutti_build *b)
{
    tutti_build_save(b, (struct tutti_saved){.whole_elements = size(b)});
}

static uint64_t power(uint64_t base, uint32_t exponent)
{
    uint64_t result = 1;

    while (exponent-- > 0)
        result *= base;
    return result;
}

static void parameters(struct tutti_build *b, const char *name, uint64_t rows, uint64_t elements,
                       bool bias)
{
    uint64_t channels = b->frame.channels;

    tutti_build_variable(b,
                         (struct tutti_variable){.name = name, .rows = rows, .elements = elements});
    if (bias)
        tutti_build_variable(b,
                             (struct tutti_variable){.name = tutti_build_name(b, "%s.bias", name),
                                                     .rows = channels,
                                                     .elements = channels});
}

static void conv(struct tutti_build *b, const struct shape *shape, const char *name,
                 uint32_t kernel, uint32_t stride, uint64_t channels, bool bias)
{
    struct tutti_feature_map in = b->frame;
    uint64_t depth = power(kernel, shape->axes) * in.channels;
    bool first = b->operations.count == 0;

    if (first)
        keep(b);
    b->frame = (struct tutti_feature_map){in.rows / power(stride, shape->axes), 1, channels};
    tutti_build_operation(b, (struct tutti_operation){.name = name,
                                                      .kind = TUTTI_WORK_CONVOLUTION,
                                                      .rows = b->frame.rows,
                                                      .depth = depth,
                                                      .columns = channels,
                                                      .in_elements = tutti_feature_map_elements(in),
                                                      .out_elements = size(b),
                                                      .no_input_gradient = first});
    parameters(b, name, kernel, depth * channels, bias);
}

/* Transposed, of 2 positions along each axis: twice the size. */
static void grow(struct tutti_build *b, const struct shape *shape, uint64_t channels)
{
    struct tutti_feature_map in = b->frame;
    uint64_t each = power(2, shape->axes);

    b->frame = (struct tutti_feature_map){in.rows * each, 1, channels};
    tutti_build_operation(b, (struct tutti_operation){.name = "grow",
                                                      .kind = TUTTI_WORK_CONVOLUTION,
                                                      .rows = in.rows,
                                                      .depth = in.channels,
                                                      .columns = each * channels,
                                                      .in_elements = tutti_feature_map_elements(in),
                                                      .out_elements = size(b)});
    parameters(b, "grow", 2, each * in.channels * channels, true);
}

/* Of each image by itself, or of the batch; then an activation, whose output is kept. */
static void activate(struct tutti_build *b, const struct shape *shape, const char *name)
{
    const char *norm = tutti_build_name(b, "%s.norm", name);

    if (shape->norm == BATCH) {
        tutti_image_norm(b, norm, true);
    } else if (shape->norm == INSTANCE) {
        keep(b);
        tutti_build_step(b, norm, TUTTI_WORK_NORMALIZATION, TUTTI_SPLIT_NONE, size(b), size(b));
        parameters(b, tutti_build_name(b, "%s.scale", norm), b->frame.channels, b->frame.channels,
                   false);
        parameters(b, tutti_build_name(b, "%s.shift", norm), b->frame.channels, b->frame.channels,
                   false);
    }
    tutti_image_activation(b, "relu");
}

static void unit(struct tutti_build *b, const struct shape *shape, const char *name,
                 uint32_t kernel, uint32_t stride, uint64_t channels, bool bias)
{
    conv(b, shape, name, kernel, stride, channels, bias);
    activate(b, shape, name);
}

static void join(struct tutti_build *b, uint64_t channels)
{
    struct tutti_fork fork = {.channels = channels};

    tutti_image_join(b, &fork);
}

static void begin(struct tutti_build *b, const struct shape *shape)
{
    uint64_t wide = shape->wide == 0 ? b->image : b->image * shape->wide / 12;

    b->frame = (struct tutti_feature_map){power(b->image, shape->axes - 1) * wide, 1,
                                          shape->input_channels};
    b->sample_bytes = 4 * size(b) + 4 * b->frame.rows; /* and the class of each position */
}

static const char *const down_names[] = {"down0", "down1", "down2", "down3", "down4", "down5"};
static const char *const up_names[] = {"up0", "up1", "up2", "up3", "up4", "up5"};

/* Two convolutions a stage, of which the first halves the size. */
static void unet(struct tutti_build *b, const struct tutti_model_kind *kind)
{
    const struct shape *shape = kind->shape;

    begin(b, shape);
    for (uint32_t s = 0; s <= shape->stages; s++) {
        tutti_image_layer(b, down_names[s], 1);
        unit(b, shape, "conv1", 3, s == 0 ? 1 : 2, shape->filters[s], false);
        unit(b, shape, "conv2", 3, 1, shape->filters[s], false);
    }
    for (uint32_t s = shape->stages; s-- > 0;) {
        tutti_image_layer(b, up_names[s], 1);
        grow(b, shape, shape->filters[s]);
        join(b, shape->filters[s]);
        unit(b, shape, "conv1", 3, 1, shape->filters[s], false);
        unit(b, shape, "conv2", 3, 1, shape->filters[s], false);
    }
    tutti_image_layer(b, "classes", 1);
    conv(b, shape, "classes", shape->last_kernel, 1, b->classes, true);
    tutti_image_loss(b);
}

/* Pooling between stages, and less channels on the way up than on the way down. */
static void unet_industrial(struct tutti_build *b, const struct tutti_model_kind *kind)
{
    const struct shape *shape = kind->shape;
    uint64_t each = power(2, shape->axes);

    begin(b, shape);
    for (uint32_t s = 0; s <= shape->stages; s++) {
        tutti_image_layer(b, down_names[s], 1);
        unit(b, shape, "conv1", 3, 1, shape->filters[s], true);
        unit(b, shape, "conv2", 3, 1, shape->filters[s], true);
        if (s == shape->stages)
            break;
        b->frame.rows /= each;
        tutti_build_step(b, "pool", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE, each * size(b),
                         size(b));
        keep(b);
    }
    for (uint32_t s = shape->stages; s-- > 0;) {
        tutti_image_layer(b, up_names[s], 1);
        grow(b, shape, b->frame.channels / (s + 1 == shape->stages ? 2 : 1));
        tutti_image_activation(b, "grow.relu");
        join(b, shape->filters[s]);
        unit(b, shape, "conv1", 3, 1, shape->filters[s], true);
        unit(b, shape, "conv2", 3, 1, shape->filters[s] / (s == 0 ? 1 : 2), true);
    }
    tutti_image_layer(b, "classes", 1);
    conv(b, shape, "classes", shape->last_kernel, 1, b->classes, true);
    tutti_image_loss(b);
}

/* Three convolutions with a sum around them. */
static void residual(struct tutti_build *b, const struct shape *shape)
{
    static const char *const names[] = {"conv1", "conv2", "conv3"};

    for (int i = 0; i < 3; i++)
        unit(b, shape, names[i], 3, 1, b->frame.channels, true);
    tutti_image_add(b, "sum");
    keep(b); /* for the convolution that reads it */
}

static void vnet(struct tutti_build *b, const struct tutti_model_kind *kind)
{
    const struct shape *shape = kind->shape;

    begin(b, shape);
    tutti_image_layer(b, "input", 1);
    unit(b, shape, "input", 3, 1, shape->filters[0], true);
    tutti_image_add(b, "sum");
    keep(b);
    for (uint32_t s = 1; s <= shape->stages; s++) {
        tutti_image_layer(b, down_names[s], 1);
        unit(b, shape, "halve", 2, 2, shape->filters[s], true);
        residual(b, shape);
    }
    for (uint32_t s = shape->stages; s-- > 0;) {
        tutti_image_layer(b, up_names[s], 1);
        grow(b, shape, shape->filters[s]);
        activate(b, shape, "grow");
        if (s == 0) /* what came down here stays out */
            break;
        join(b, shape->filters[s]);
        residual(b, shape);
    }
    tutti_image_layer(b, "classes", 1);
    conv(b, shape, "classes", shape->last_kernel, 1, b->classes, true);
    tutti_image_loss(b);
}

#define EXAMPLE "; as in NVIDIA's TensorFlow example"

#define SEGMENT(model, words, from, how, class_count, pixels, count, ...)                      \
    {                                                                                          \
        .name = model, .summary = words, .source = from EXAMPLE, .sample = TUTTI_SAMPLE_IMAGE, \
        .classes = class_count, .image = pixels, .image_min = (pixels) / 4, .examples = count, \
        .shape = &(const struct shape){__VA_ARGS__}, .build = how                              \
    }

static const struct tutti_model_kind kinds[] = {
    SEGMENT("unet-3d", "U-Net of volumes of 128 a side", "Cicek et al. 2016, arXiv 1606.06650",
            unet, 4, 128, 335, .axes = 3, .stages = 5, .filters = {32, 64, 128, 256, 320, 320},
            .input_channels = 4, .last_kernel = 3, .norm = INSTANCE),
    SEGMENT("nnunet-3d", "nnU-Net of volumes of 128 a side",
            "Isensee et al. 2018, arXiv 1809.10486", unet, 4, 128, 484, .axes = 3, .stages = 5,
            .filters = {32, 64, 128, 256, 320, 320}, .input_channels = 4, .last_kernel = 1,
            .norm = INSTANCE),
    SEGMENT("nnunet-2d", "nnU-Net of patches of 192 x 160", "Isensee et al. 2018, arXiv 1809.10486",
            unet, 4, 192, 484, .axes = 2, .stages = 5, .filters = {32, 64, 128, 256, 512, 512},
            .input_channels = 4, .last_kernel = 1, .norm = INSTANCE, .wide = 10),
    SEGMENT("vnet", "V-Net of volumes of 32 a side", "Milletari et al. 2016, arXiv 1606.04797",
            vnet, 3, 32, 260, .axes = 3, .stages = 3, .filters = {16, 32, 64, 128},
            .input_channels = 1, .last_kernel = 3, .norm = BATCH),
    SEGMENT("unet-industrial", "small U-Net of textures, 512 x 512",
            "Ronneberger et al. 2015, arXiv 1505.04597", unet_industrial, 1, 512, 1046, .axes = 2,
            .stages = 4, .filters = {32, 32, 64, 128, 256}, .input_channels = 1, .last_kernel = 1,
            .norm = NONE),
};

const struct tutti_model_family tutti_family_segment = {kinds, sizeof(kinds) / sizeof(kinds[0])};
