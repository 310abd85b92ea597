/* The memory of detectors beside the peaks of Detectron2's model zoo, on eight V100 and two images
 * each. One constant, cuDNN's workspace, was fitted to every second row. */
#include <ctype.h>
#include <math.h>

#include "runtime/model.h"
#include "runtime/status.h"
#include "sim/footprint.h"
#include "tests/test.h"
#include "traces/training.h"

enum { ROWS_MAX = 128, TEXT_BYTES = 1 << 14, LVIS_CLASSES = 1230 };

/* "Faster R-CNN: R50-C4 1x" is "faster-rcnn-r50-c4"; NULL: no model of ours, as with other
 * normalisations, convolutions or sizes of images. */
static const char *model_name(const char *row, char *name, size_t name_bytes)
{
    static const char *const families[][2] = {
        {"Faster R-CNN: ", "faster-rcnn"},
        {"RetinaNet: ", "retinanet"},
        {"RPN & Fast R-CNN: RPN ", "rpn"},
        {"RPN & Fast R-CNN: Fast R-CNN ", "fast-rcnn"},
        {"COCO Instance Segmentation Baselines with Mask R-CNN: ", "mask-rcnn"},
        {"LVIS Instance Segmentation Baselines with Mask R-CNN: ", "mask-rcnn"},
        {"Other Settings: Baseline ", "mask-rcnn"},
        {"COCO Person Keypoint Detection Baselines with Keypoint R-CNN: ", "keypoint-rcnn"},
    };

    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        const char *rest = row + strlen(families[i][0]);
        size_t used;

        if (strncmp(row, families[i][0], strlen(families[i][0])) != 0)
            continue;
        used = (size_t)snprintf(name, name_bytes, "%s-", families[i][1]);
        for (; *rest != '\0' && *rest != ' ' && used + 1 < name_bytes; rest++)
            name[used++] = (char)tolower((unsigned char)*rest);
        name[used] = '\0';
        return name;
    }
    return NULL;
}

/* False: no model of ours. */
static bool predicted(const struct tutti_training_row_settings *s, struct tutti_footprint *ret)
{
    struct tutti_model_params asked = {.size = sizeof(asked)};
    struct tutti_footprint_params params = {.size = sizeof(params),
                                            .optimizer = TUTTI_OPTIMIZER_MOMENTUM,
                                            .micro_batch = (uint64_t)s->batch_per_gpu,
                                            .data = (uint32_t)s->gpus};
    struct tutti_workload *model = NULL;
    struct tutti_err err = {""};
    char name[64];

    if (model_name(s->model, name, sizeof(name)) == NULL)
        return false;
    if (strncmp(s->model, "LVIS", 4) == 0)
        asked.classes = LVIS_CLASSES;
    CHECK_OK(tutti_model_new(name, &asked, &model, &err), err);
    params.model = model;
    CHECK_OK(tutti_accelerator_find(s->gpu, &params.accelerator, &err), err);
    CHECK_OK(tutti_memory_framework_find(s->framework, &params.framework, &err), err);
    CHECK_OK(tutti_precision_find(s->precision, &params.precision, &err), err);
    CHECK_OK(tutti_footprint_of(&params, ret, &err), err);
    tutti_model_free(model);
    return true;
}

/* Of a set of rows. */
struct tally {
    const char *name;
    double errors[ROWS_MAX]; /* |predicted / measured - 1| */
    size_t count;
};

static int by_size(const void *a, const void *b)
{
    const double *x = a;
    const double *y = b;

    return (*x > *y) - (*x < *y);
}

static void add(struct tally *tally, double error)
{
    if (tally->count < ROWS_MAX)
        tally->errors[tally->count++] = fabs(error);
}

static double quantile(struct tally *tally, double q)
{
    qsort(tally->errors, tally->count, sizeof(tally->errors[0]), by_size);
    return 100 * tally->errors[(size_t)(q * (double)(tally->count - 1) + 0.5)];
}

static size_t summary(struct tally *tally, char *text, size_t text_bytes)
{
    return (size_t)snprintf(
        text, text_bytes, "%-14s %2zu rows: error median %4.1f %%, p90 %4.1f %%, worst %4.1f %%\n",
        tally->name, tally->count, quantile(tally, 0.5), quantile(tally, 0.9), quantile(tally, 1));
}

static const char heading[] =
    "# Memory of a device, GB (1e9; the source does not say which), beside what\n"
    "# tutti_footprint_of() predicts: the rows of detectron2.csv whose model there is. Written by\n"
    "# tests/sim/footprint_detectors_test.c (TUTTI_UPDATE_GOLDEN=1).\n"
    "# model measured predicted fits error_percent\n";

TEST(measured_rows_of_detectors)
{
    static char text[TEXT_BYTES];
    struct tally all = {.name = "# all"};
    struct tally judged = {.name = "# not fitted"};
    struct tutti_training_rows rows;
    struct tutti_err err = {""};
    size_t bytes = 0;
    char *table =
        test_read_file(TUTTI_SOURCE_DIR "/traces/measured/training/detectron2.csv", &bytes);
    size_t used = (size_t)snprintf(text, sizeof(text), "%s", heading);

    CHECK_OK(tutti_training_parse("detectron2.csv", table, bytes, &rows, &err), err);
    for (size_t i = 0; i < rows.row_count; i++) {
        const struct tutti_training_row *row = &rows.rows[i];
        struct tutti_footprint f;
        bool fitted = all.count % 2 == 0;
        double error;

        if (row->results.memory != TUTTI_TRAINING_MEMORY_STATED || !predicted(&row->settings, &f))
            continue;
        error = (double)f.allocated_bytes / (row->results.memory_GB * 1e9) - 1;
        used += (size_t)snprintf(text + used, sizeof(text) - used,
                                 "%-72s %4.1f %5.2f %s %+6.1f%s\n", row->settings.model,
                                 row->results.memory_GB, (double)f.allocated_bytes / 1e9,
                                 f.fits ? "fits" : "no", 100 * error, fitted ? " fitted" : "");
        add(&all, error);
        if (!fitted)
            add(&judged, error);
        CHECK(f.fits);
    }
    used += summary(&all, text + used, sizeof(text) - used);
    used += summary(&judged, text + used, sizeof(text) - used);
    CHECK(used < sizeof(text));
    CHECK(all.count >= 35);
    CHECK(quantile(&judged, 0.5) < 12);
    CHECK(quantile(&judged, 0.9) < 30);
    test_golden("../../traces/measured/training/footprint_detectron2.txt", text);
    tutti_training_free(&rows);
    free(table);
}
