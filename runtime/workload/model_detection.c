/* Detectors of Detectron2's model zoo: a ResNet whose stem and first stage are frozen, and whose
 * batch normalisations are fixed scales and shifts; a pyramid of features or none; proposals; heads
 * that see 512 regions of an image. As there, and unlike a fixed normalisation elsewhere, scale and
 * shift are two kernels that keep nothing: of a convolution, only what its activation writes is
 * kept. Images are 800 x 1344 pixels, the largest of the training's range, which peaks of memory
 * are of; mean images are a third smaller. */
#include "runtime/workload/image.h"

enum neck { C4, DC5, PYRAMID };
enum head { PROPOSALS, BOXES, MASKS, KEYPOINTS, DENSE };

struct shape {
    uint32_t blocks[4];
    bool wide;  /* ResNeXt, 32 groups of 8 channels, the stride in the convolution of 3 x 3 */
    bool given; /* proposals come with the data: no network for them */
    enum neck neck;
    enum head head;
};

enum { STAGES = 4, LEVELS = 5, WIDTH = 256, REGIONS = 512, POSITIVES = 128, KEYPOINT_COUNT = 17 };

/* Feature maps: of the four stages, and of the pyramid's levels. */
struct maps {
    struct tutti_feature_map stage[STAGES];
    struct tutti_feature_map level[LEVELS];
    uint32_t level_count;
};

static uint64_t size(const struct tutti_build *b)
{
    return tutti_feature_map_elements(b->frame);
}

static void keep(struct tutti_build *b, uint64_t elements)
{
    tutti_build_save(b, (struct tutti_saved){.whole_elements = elements});
}

static void step(struct tutti_build *b, const char *name)
{
    tutti_build_step(b, name, TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE, size(b), size(b));
}

/* ---- backbone -------------------------------------------------------------------------------- */

/* A convolution and the fixed normalisation; with an activation, whose output is kept. */
static void conv(struct tutti_build *b, struct tutti_conv c, bool activates)
{
    tutti_image_conv(b, c);
    step(b, "scale");
    step(b, "shift");
    tutti_build_variable(b, (struct tutti_variable){.name = tutti_build_name(b, "%s.norm", c.name),
                                                    .rows = 4,
                                                    .elements = 4 * c.channels,
                                                    .unreduced = true});
    if (!activates)
        return;
    step(b, "relu");
    if (!c.frozen)
        keep(b, size(b));
}

static void block(struct tutti_build *b, const struct shape *shape, unsigned stage, uint32_t stride)
{
    uint64_t out = (uint64_t)WIDTH << stage;
    uint64_t mid = shape->wide ? out : out / 4;
    bool frozen = stage == 0;
    struct tutti_feature_map in = b->frame;
    struct tutti_feature_map done;

    conv(b,
         (struct tutti_conv){"conv1", .kernel = 1, .stride = shape->wide ? 1 : stride,
                             .channels = mid, .frozen = frozen},
         true);
    conv(b,
         (struct tutti_conv){"conv2", .kernel = 3, .stride = shape->wide ? stride : 1,
                             .groups = shape->wide ? 32 : 1, .channels = mid, .frozen = frozen},
         true);
    conv(b, (struct tutti_conv){"conv3", .kernel = 1, .channels = out, .frozen = frozen}, false);
    done = b->frame;
    if (in.channels != out || stride != 1) {
        b->frame = in;
        conv(b,
             (struct tutti_conv){"shortcut", .kernel = 1, .stride = stride, .channels = out,
                                 .frozen = frozen},
             false);
    }
    b->frame = done;
    tutti_image_add(b, "sum");
    step(b, "relu");
    if (!frozen)
        keep(b, size(b));
}

static void freeze(struct tutti_build *b)
{
    if (!b->no_memory)
        tutti_build_last(b)->is_frozen = true;
}

/* The stages from `first` on, of which the frame is the input. */
static void stages(struct tutti_build *b, const struct shape *shape, unsigned first, unsigned end,
                   struct maps *maps)
{
    static const char *const names[STAGES][2] = {{"res2.first", "res2.block"},
                                                 {"res3.first", "res3.block"},
                                                 {"res4.first", "res4.block"},
                                                 {"res5.first", "res5.block"}};

    for (unsigned s = first; s < end; s++) {
        bool dilated = s == 3 && shape->neck == DC5;

        tutti_image_layer(b, names[s][0], 1);
        if (s ==
            1) /* what is read of a frozen stage is kept by who reads it, the pyramid as well */
            keep(b, size(b));
        block(b, shape, s, s == 0 || dilated ? 1 : 2);
        if (s == 0)
            freeze(b);
        tutti_image_layer(b, names[s][1], shape->blocks[s] - 1);
        block(b, shape, s, 1);
        if (s == 0)
            freeze(b);
        maps->stage[s] = b->frame;
    }
}

/* ---- pyramid --------------------------------------------------------------------------------- */

/* From the coarsest down: 1 x 1, the sum with the level above, 3 x 3; and a coarser level or, of a
 * dense detector, two. */
static void pyramid(struct tutti_build *b, const struct shape *shape, struct maps *maps)
{
    unsigned finest = shape->head == DENSE ? 1 : 0;

    tutti_image_layer(b, "pyramid", 1);
    maps->level_count = LEVELS;
    for (unsigned s = STAGES; s-- > finest;) {
        b->frame = maps->stage[s];
        tutti_image_conv(b, (struct tutti_conv){tutti_build_name(b, "lateral%u", s + 2),
                                                .kernel = 1, .channels = WIDTH, .bias = true});
        if (s + 1 < STAGES) {
            step(b, "upsample");
            tutti_image_add(b, "sum");
        }
        keep(b, size(b));
        tutti_image_conv(b, (struct tutti_conv){tutti_build_name(b, "output%u", s + 2), .kernel = 3,
                                                .channels = WIDTH, .bias = true});
        maps->level[s - finest] = b->frame;
    }
    b->frame = maps->stage[3]; /* which a dense detector's coarser levels are made of */
    for (unsigned l = STAGES - finest; l < LEVELS; l++) {
        if (shape->head == DENSE) {
            tutti_image_conv(b, (struct tutti_conv){l == 3 ? "output6" : "output7", .kernel = 3,
                                                    .stride = 2, .channels = WIDTH, .bias = true});
        } else { /* every second position of the level before */
            b->frame = (struct tutti_feature_map){(b->frame.rows + 1) / 2,
                                                  (b->frame.columns + 1) / 2, WIDTH};
            step(b, "output6");
        }
        maps->level[l] = b->frame;
    }
}

/* All levels are kept for the convolutions that read them. */
static void keep_levels(struct tutti_build *b, const struct maps *maps)
{
    for (unsigned l = 0; l < maps->level_count; l++)
        keep(b, tutti_feature_map_elements(maps->level[l]));
}

/* ---- what looks at all positions ------------------------------------------------------------- */

/* A convolution of every level with the same weights; the frame becomes that of the level. */
static void shared_conv(struct tutti_build *b, struct tutti_feature_map *at, unsigned level,
                        const char *name, uint32_t kernel, uint64_t channels, bool activates)
{
    b->frame = *at;
    tutti_image_conv(b, (struct tutti_conv){name, .kernel = kernel, .channels = channels,
                                            .bias = true, .shared = level > 0});
    if (activates) {
        step(b, "relu");
        keep(b, size(b));
    }
    *at = b->frame;
}

/* Objects or not, and where, of three shapes a position; of five sizes as well without a
 * pyramid. */
static void proposals(struct tutti_build *b, const struct shape *shape, const struct maps *maps)
{
    uint64_t anchors = shape->neck == PYRAMID ? 3 : 15;
    uint64_t scores = 0;

    tutti_image_layer(b, "proposals", 1);
    if (shape->neck == PYRAMID) /* else it is an activation's output, which is kept already */
        keep_levels(b, maps);
    for (unsigned l = 0; l < maps->level_count; l++) {
        struct tutti_feature_map at = maps->level[l];
        struct tutti_feature_map seen;

        shared_conv(b, &at, l, "conv", 3, at.channels, true);
        seen = at;
        shared_conv(b, &at, l, "objectness", 1, anchors, false);
        shared_conv(b, &seen, l, "deltas", 1, 4 * anchors, false);
        scores += 5 * tutti_feature_map_elements(at);
    }
    tutti_build_step(b, "proposals.loss", TUTTI_WORK_LOSS, TUTTI_SPLIT_NONE, scores, 2);
    b->logits = scores;
}

/* RetinaNet: classes and places of nine shapes a position. The focal loss, as fvcore writes it out
 * (focal_loss.py), keeps beside its logits nine tensors of their size: targets t and 1 - t, the
 * sigmoid p and 1 - p, 1 minus the sum of their products, its power, the cross entropy, the product
 * of these two, and the weights. */
static void dense(struct tutti_build *b, const struct maps *maps)
{
    static const char *const names[2][4] = {
        {"class.conv1", "class.conv2", "class.conv3", "class.conv4"},
        {"box.conv1", "box.conv2", "box.conv3", "box.conv4"}};
    enum { ANCHORS = 9, FOCAL_KEPT = 9 };

    tutti_image_layer(b, "heads", 1);
    keep_levels(b, maps);
    b->logits = 0;
    for (unsigned l = 0; l < maps->level_count; l++) {
        for (unsigned tower = 0; tower < 2; tower++) {
            struct tutti_feature_map at = maps->level[l];

            for (unsigned i = 0; i < 4; i++)
                shared_conv(b, &at, l, names[tower][i], 3, WIDTH, true);
            shared_conv(b, &at, l, tower == 0 ? "class" : "box", 3,
                        ANCHORS * (tower == 0 ? b->classes : 4), false);
            if (tower == 0)
                keep(b, FOCAL_KEPT * size(b));
            b->logits += tutti_feature_map_elements(at);
        }
    }
    tutti_build_step(b, "loss", TUTTI_WORK_LOSS, TUTTI_SPLIT_NONE, b->logits, 2);
}

/* ---- what looks at regions ------------------------------------------------------------------- */

/* Regions of `side` x `side` positions, cut out of the features and kept for what reads them. */
static void cut(struct tutti_build *b, uint64_t regions, uint64_t side, uint64_t channels)
{
    b->frame = (struct tutti_feature_map){regions * side, side, channels};
    tutti_build_step(b, "align", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE, 4 * size(b), size(b));
}

static void region_dense(struct tutti_build *b, const char *name, uint64_t depth, uint64_t columns,
                         bool activates)
{
    tutti_build_dense(
        b, (struct tutti_dense){name, TUTTI_SPLIT_NONE, REGIONS, depth, columns, true, false});
    if (!activates)
        return;
    tutti_build_step(b, "relu", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE, REGIONS * columns,
                     REGIONS * columns);
    keep(b, REGIONS * columns);
}

static void boxes(struct tutti_build *b, const struct shape *shape, struct maps *maps)
{
    uint64_t depth = 1024;

    if (shape->neck == C4) { /* the last stage sees regions */
        tutti_image_layer(b, "regions", 1);
        cut(b, REGIONS, 14, 1024);
        keep(b, size(b));
        stages(b, shape, 3, 4, maps);
        tutti_image_layer(b, "boxes", 1);
        depth = 2048;
        tutti_build_step(b, "pool", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE, size(b),
                         REGIONS * depth);
        keep(b, REGIONS * depth);
    } else {
        tutti_image_layer(b, "boxes", 1);
        cut(b, REGIONS, 7, shape->neck == DC5 ? 2048 : WIDTH);
        keep(b, size(b));
        region_dense(b, "dense1", size(b) / REGIONS, depth, true);
        region_dense(b, "dense2", depth, depth, true);
    }
    region_dense(b, "class", depth, b->classes + 1, false);
    region_dense(b, "box", depth, 4 * b->classes, false);
    b->logits = REGIONS * (5 * b->classes + 1);
    tutti_build_step(b, "loss", TUTTI_WORK_LOSS, TUTTI_SPLIT_NONE, b->logits, 2);
}

/* A transposed convolution that doubles the size. */
static void grow(struct tutti_build *b, uint64_t channels, uint32_t kernel)
{
    struct tutti_feature_map in = b->frame;
    struct tutti_feature_map out = {2 * in.rows, 2 * in.columns, channels};

    tutti_build_operation(
        b, (struct tutti_operation){.name = "grow",
                                    .kind = TUTTI_WORK_CONVOLUTION,
                                    .rows = in.rows * in.columns,
                                    .depth = in.channels,
                                    .columns = (uint64_t)kernel * kernel * channels,
                                    .in_elements = tutti_feature_map_elements(in),
                                    .out_elements = tutti_feature_map_elements(out)});
    tutti_build_variable(
        b, (struct tutti_variable){.name = "grow",
                                   .rows = kernel,
                                   .elements = (uint64_t)kernel * kernel * in.channels * channels});
    tutti_build_variable(
        b, (struct tutti_variable){.name = "grow.bias", .rows = channels, .elements = channels});
    b->frame = out;
}

/* Convolutions of the regions that hold an object, as large again, and a mask a class. Without a
 * pyramid the mask reads what the boxes do. */
static void masks(struct tutti_build *b, const struct shape *shape)
{
    static const char *const names[] = {"mask1", "mask2", "mask3", "mask4"};

    tutti_image_layer(b, "masks", 1);
    if (shape->neck == C4) {
        b->frame = (struct tutti_feature_map){POSITIVES * 7, 7, 2048};
        step(b, "pick");
        keep(b, size(b));
    } else {
        cut(b, POSITIVES, 14, shape->neck == DC5 ? 2048 : WIDTH);
        keep(b, size(b));
        for (unsigned i = 0; i < 4; i++)
            tutti_image_conv_bias(b, (struct tutti_conv){names[i], .kernel = 3, .channels = WIDTH});
    }
    grow(b, WIDTH, 2);
    step(b, "relu");
    keep(b, size(b));
    tutti_image_conv(
        b, (struct tutti_conv){"mask", .kernel = 1, .channels = b->classes, .bias = true});
    b->logits += size(b);
    tutti_build_step(b, "mask.loss", TUTTI_WORK_LOSS, TUTTI_SPLIT_NONE, size(b), 1);
}

static void keypoints(struct tutti_build *b)
{
    static const char *const names[] = {"keypoint1", "keypoint2", "keypoint3", "keypoint4",
                                        "keypoint5", "keypoint6", "keypoint7", "keypoint8"};

    tutti_image_layer(b, "keypoints", 1);
    cut(b, POSITIVES, 14, WIDTH);
    keep(b, size(b));
    for (unsigned i = 0; i < 8; i++)
        tutti_image_conv_bias(b, (struct tutti_conv){names[i], .kernel = 3, .channels = 512});
    grow(b, KEYPOINT_COUNT, 4);
    b->frame.rows *= 2;
    b->frame.columns *= 2;
    step(b, "upsample");
    b->logits += size(b);
    tutti_build_step(b, "keypoint.loss", TUTTI_WORK_LOSS, TUTTI_SPLIT_NONE, size(b), 1);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void backbone(struct tutti_build *b, const struct shape *shape, struct maps *maps)
{
    /* 1333 of 800 pixels, rounded up to what the pyramid divides. */
    b->frame = (struct tutti_feature_map){b->image, (b->image * 1333 / 800 + 31) / 32 * 32, 3};
    b->sample_bytes = 4 * size(b);
    tutti_image_layer(b, "stem", 1);
    conv(b, (struct tutti_conv){"conv1", .kernel = 7, .stride = 2, .channels = 64, .frozen = true},
         true);
    b->frame.rows = (b->frame.rows + 1) / 2;
    b->frame.columns = (b->frame.columns + 1) / 2;
    tutti_build_step(b, "pool", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE, 4 * size(b), size(b));
    freeze(b);
    stages(b, shape, 0, shape->neck == C4 ? 3 : 4, maps);
}

static void detector(struct tutti_build *b, const struct tutti_model_kind *kind)
{
    const struct shape *shape = kind->shape;
    struct maps maps = {.level_count = 1};

    backbone(b, shape, &maps);
    maps.level[0] = b->frame;
    if (shape->neck == PYRAMID)
        pyramid(b, shape, &maps);
    if (shape->head == DENSE) {
        dense(b, &maps);
        return;
    }
    if (!shape->given)
        proposals(b, shape, &maps);
    if (shape->head != PROPOSALS)
        boxes(b, shape, &maps);
    if (shape->head == MASKS)
        masks(b, shape);
    if (shape->head == KEYPOINTS)
        keypoints(b);
}

#define R50  .blocks = {3, 4, 6, 3}
#define R101 .blocks = {3, 4, 23, 3}
#define X101 .blocks = {3, 4, 23, 3}, .wide = true

#define DETECTOR(model, words, class_count, ...)                                             \
    {                                                                                        \
        .name = model, .summary = words,                                                     \
        .source = "Detectron2's model zoo and its configurations; Ren et al. 2015, arXiv "   \
                  "1506.01497; Lin et al. 2016, arXiv 1612.03144",                           \
        .sample = TUTTI_SAMPLE_IMAGE, .classes = class_count, .image = 800, .image_min = 64, \
        .examples = 117266, .shape = &(const struct shape){__VA_ARGS__}, .build = detector   \
    }

static const struct tutti_model_kind kinds[] = {
    DETECTOR("rpn-r50-c4", "proposals on ResNet-50", 0, R50, .neck = C4, .head = PROPOSALS),
    DETECTOR("rpn-r50-fpn", "proposals on ResNet-50, pyramid", 0, R50, .neck = PYRAMID,
             .head = PROPOSALS),
    DETECTOR("fast-rcnn-r50-fpn", "Fast R-CNN on ResNet-50, pyramid", 80, R50, .neck = PYRAMID,
             .head = BOXES, .given = true),
    DETECTOR("faster-rcnn-r50-c4", "Faster R-CNN on ResNet-50", 80, R50, .neck = C4, .head = BOXES),
    DETECTOR("faster-rcnn-r50-dc5", "Faster R-CNN on ResNet-50, dilated", 80, R50, .neck = DC5,
             .head = BOXES),
    DETECTOR("faster-rcnn-r50-fpn", "Faster R-CNN on ResNet-50, pyramid", 80, R50, .neck = PYRAMID,
             .head = BOXES),
    DETECTOR("faster-rcnn-r101-c4", "Faster R-CNN on ResNet-101", 80, R101, .neck = C4,
             .head = BOXES),
    DETECTOR("faster-rcnn-r101-dc5", "Faster R-CNN on ResNet-101, dilated", 80, R101, .neck = DC5,
             .head = BOXES),
    DETECTOR("faster-rcnn-r101-fpn", "Faster R-CNN on ResNet-101, pyramid", 80, R101,
             .neck = PYRAMID, .head = BOXES),
    DETECTOR("faster-rcnn-x101-fpn", "Faster R-CNN on ResNeXt-101, pyramid", 80, X101,
             .neck = PYRAMID, .head = BOXES),
    DETECTOR("retinanet-r50", "RetinaNet on ResNet-50", 80, R50, .neck = PYRAMID, .head = DENSE),
    DETECTOR("retinanet-r101", "RetinaNet on ResNet-101", 80, R101, .neck = PYRAMID, .head = DENSE),
    DETECTOR("mask-rcnn-r50-c4", "Mask R-CNN on ResNet-50", 80, R50, .neck = C4, .head = MASKS),
    DETECTOR("mask-rcnn-r50-dc5", "Mask R-CNN on ResNet-50, dilated", 80, R50, .neck = DC5,
             .head = MASKS),
    DETECTOR("mask-rcnn-r50-fpn", "Mask R-CNN on ResNet-50, pyramid", 80, R50, .neck = PYRAMID,
             .head = MASKS),
    DETECTOR("mask-rcnn-r101-c4", "Mask R-CNN on ResNet-101", 80, R101, .neck = C4, .head = MASKS),
    DETECTOR("mask-rcnn-r101-dc5", "Mask R-CNN on ResNet-101, dilated", 80, R101, .neck = DC5,
             .head = MASKS),
    DETECTOR("mask-rcnn-r101-fpn", "Mask R-CNN on ResNet-101, pyramid", 80, R101, .neck = PYRAMID,
             .head = MASKS),
    DETECTOR("mask-rcnn-x101-fpn", "Mask R-CNN on ResNeXt-101, pyramid", 80, X101, .neck = PYRAMID,
             .head = MASKS),
    DETECTOR("keypoint-rcnn-r50-fpn", "Keypoint R-CNN on ResNet-50, pyramid", 1, R50,
             .neck = PYRAMID, .head = KEYPOINTS),
    DETECTOR("keypoint-rcnn-r101-fpn", "Keypoint R-CNN on ResNet-101, pyramid", 1, R101,
             .neck = PYRAMID, .head = KEYPOINTS),
    DETECTOR("keypoint-rcnn-x101-fpn", "Keypoint R-CNN on ResNeXt-101, pyramid", 1, X101,
             .neck = PYRAMID, .head = KEYPOINTS),
};

const struct tutti_model_family tutti_family_detection = {kinds, sizeof(kinds) / sizeof(kinds[0])};
