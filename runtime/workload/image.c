/* Operations of image models: shapes, variables and what is kept. */
#include "runtime/workload/image.h"

#include <assert.h>

uint64_t tutti_feature_map_elements(struct tutti_feature_map frame)
{
    return frame.rows * frame.columns * frame.channels;
}

static uint64_t elements(const struct tutti_build *build)
{
    return tutti_feature_map_elements(build->frame);
}

/* The frame is kept. */
static void save(struct tutti_build *build)
{
    tutti_build_save(build, (struct tutti_saved){.whole_elements = elements(build)});
}

void tutti_image_input(struct tutti_build *build, uint64_t channels)
{
    build->frame = (struct tutti_feature_map){build->image, build->image, channels};
    build->sample_bytes = 4 * elements(build) + 4;
}

void tutti_image_layer(struct tutti_build *build, const char *name, uint32_t repeat)
{
    tutti_build_layer(build, name, repeat, elements(build));
}

static uint64_t positions(uint64_t in, uint32_t kernel, uint32_t stride, bool valid, uint32_t pad)
{
    if (!valid)
        return (in + stride - 1) / stride;
    assert(in + 2 * (uint64_t)pad >= kernel);
    return (in + 2 * (uint64_t)pad - kernel) / stride + 1;
}

void tutti_image_conv(struct tutti_build *build, struct tutti_conv c)
{
    struct tutti_feature_map in = build->frame;
    uint32_t stride = c.stride == 0 ? 1 : c.stride;
    uint32_t groups = c.groups == 0 ? 1 : c.groups;
    uint32_t kernel_columns = c.kernel_columns == 0 ? c.kernel : c.kernel_columns;
    uint64_t depth = (uint64_t)c.kernel * kernel_columns * in.channels / groups;
    bool first = build->operations.count == 0;

    assert(in.channels % groups == 0);
    assert(c.channels % groups == 0);
    if (first && !c.frozen)
        save(build);
    build->frame = (struct tutti_feature_map){
        positions(in.rows, c.kernel, stride, c.valid, c.pad),
        positions(in.columns, kernel_columns, stride, c.valid, c.pad), c.channels};
    tutti_build_operation(build,
                          (struct tutti_operation){.name = c.name,
                                                   .kind = TUTTI_WORK_CONVOLUTION,
                                                   .count = groups,
                                                   .rows = build->frame.rows * build->frame.columns,
                                                   .depth = depth,
                                                   .columns = c.channels / groups,
                                                   .in_elements = tutti_feature_map_elements(in),
                                                   .out_elements = elements(build),
                                                   .no_input_gradient = first});
    if (c.shared)
        return;
    /* TensorFlow's kernels are [rows, columns, in, out]: partitioners cut the rows. */
    tutti_build_variable(build, (struct tutti_variable){.name = c.name,
                                                        .rows = c.kernel,
                                                        .elements = depth * c.channels,
                                                        .unreduced = c.frozen});
    if (c.bias)
        tutti_build_variable(build, (struct tutti_variable){
                                        .name = tutti_build_name(build, "%s.bias", c.name),
                                        .rows = c.channels,
                                        .elements = c.channels,
                                    });
}

void tutti_image_norm(struct tutti_build *build, const char *name, bool scale)
{
    static const char *const parts[] = {"scale", "shift", "mean", "variance"};
    uint64_t channels = build->frame.channels;

    save(build);
    tutti_build_step(build, name, TUTTI_WORK_NORMALIZATION, TUTTI_SPLIT_NONE, elements(build),
                     elements(build));
    for (unsigned i = scale ? 0 : 1; i < 4; i++)
        tutti_build_variable(build, (struct tutti_variable){
                                        .name = tutti_build_name(build, "%s.%s", name, parts[i]),
                                        .rows = channels,
                                        .elements = channels,
                                        .unreduced = i >= 2,
                                    });
}

void tutti_image_activation(struct tutti_build *build, const char *name)
{
    tutti_build_step(build, name, TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE, elements(build),
                     elements(build));
    save(build);
}

void tutti_image_conv_norm(struct tutti_build *build, struct tutti_conv conv, bool scale)
{
    tutti_image_conv(build, conv);
    tutti_image_norm(build, tutti_build_name(build, "%s.norm", conv.name), scale);
    tutti_image_activation(build, "relu");
}

void tutti_image_conv_bias(struct tutti_build *build, struct tutti_conv conv)
{
    conv.bias = true;
    tutti_image_conv(build, conv);
    tutti_image_activation(build, "relu");
}

void tutti_image_pool(struct tutti_build *build, const char *name, uint32_t kernel, uint32_t stride,
                      bool valid)
{
    struct tutti_feature_map in = build->frame;

    build->frame.rows = positions(in.rows, kernel, stride, valid, 0);
    build->frame.columns = positions(in.columns, kernel, stride, valid, 0);
    tutti_build_step(build, name, TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE,
                     tutti_feature_map_elements(in), elements(build));
    save(build);
}

void tutti_image_global_pool(struct tutti_build *build)
{
    uint64_t in = elements(build);

    build->frame.rows = 1;
    build->frame.columns = 1;
    tutti_build_step(build, "pool", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE, in, elements(build));
    save(build);
}

void tutti_image_add(struct tutti_build *build, const char *name)
{
    tutti_build_step(build, name, TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE, 2 * elements(build),
                     elements(build));
}

void tutti_image_flatten(struct tutti_build *build)
{
    build->frame = (struct tutti_feature_map){1, 1, elements(build)};
}

void tutti_image_dense(struct tutti_build *build, const char *name, uint64_t columns)
{
    assert(build->frame.rows == 1);
    assert(build->frame.columns == 1);
    if (build->operations.count == 0)
        save(build);
    tutti_build_dense(build, (struct tutti_dense){.name = name,
                                                  .rows = 1,
                                                  .depth = build->frame.channels,
                                                  .columns = columns,
                                                  .bias = true,
                                                  .first = build->operations.count == 0});
    build->frame.channels = columns;
}

void tutti_image_dropout(struct tutti_build *build, const char *name)
{
    tutti_build_step(build, name, TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE, elements(build),
                     elements(build));
    save(build);
    tutti_build_save(build, (struct tutti_saved){.whole_bytes = elements(build)}); /* the mask */
}

void tutti_image_loss(struct tutti_build *build)
{
    build->logits = elements(build);
    tutti_build_step(build, "loss", TUTTI_WORK_LOSS, TUTTI_SPLIT_NONE, elements(build), 1);
}

struct tutti_fork tutti_image_fork(const struct tutti_build *build)
{
    return (struct tutti_fork){.from = build->frame};
}

void tutti_image_branch(struct tutti_build *build, struct tutti_fork *fork)
{
    fork->channels += build->frame.channels;
    build->frame = fork->from;
}

void tutti_image_join(struct tutti_build *build, struct tutti_fork *fork)
{
    build->frame.channels += fork->channels;
    tutti_build_step(build, "concat", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE, elements(build),
                     elements(build));
    save(build);
}
