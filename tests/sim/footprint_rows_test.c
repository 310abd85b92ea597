/* The memory of training steps beside 1000 measured rows: nanotron's Llamas on H100, to every
 * second of which the constants were fitted; and the rows that gave no result, some of which ran
 * out of memory. What is measured is that of the first stage of a pipeline. */
#include <math.h>

#include "runtime/model.h"
#include "runtime/status.h"
#include "sim/footprint.h"
#include "tests/test.h"
#include "traces/training.h"

enum { ROWS_MAX = 4096, TEXT_BYTES = 1 << 16 };

static struct tutti_workload *llama_of(const struct tutti_training_row_settings *s)
{
    const bool small = s->hidden == 2048;
    const struct tutti_model_params params = {
        .size = sizeof(params),
        .sequence = (uint32_t)s->seq_len,
        .vocabulary = (uint32_t)s->vocab,
        .transformer = {.layers = (uint32_t)s->layers,
                        .hidden = (uint32_t)s->hidden,
                        .heads = (uint32_t)s->heads,
                        .kv_heads = (uint32_t)s->heads,
                        .feed_forward = small ? 8192 : 14336, /* the site's configurations */
                        .gated = true,
                        .tied = small}};
    struct tutti_workload *model = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_model_new("llama", &params, &model, &err), err);
    if (model == NULL)
        exit(1);
    return model;
}

enum { STAGES_MAX = 64 };

/* nanotron closes a stage with the layer whose parameters, added up, reach its share of all; the
 * head counts as a layer. */
static void divide(const struct tutti_training_row_settings *s, const struct tutti_workload *model,
                   uint32_t layers[STAGES_MAX])
{
    const struct tutti_transformer *t = &model->transformer;
    uint64_t layer = (4 * (uint64_t)t->hidden + 3 * (uint64_t)t->feed_forward) * t->hidden;
    uint64_t all = t->layers * layer + (uint64_t)t->vocabulary * t->hidden;
    uint64_t stage = 0;
    uint64_t stages = (uint64_t)s->pp;

    memset(layers, 0, STAGES_MAX * sizeof(layers[0]));
    for (uint64_t i = 0; i < t->layers; i++) {
        layers[stage]++;
        if ((i + 1) * layer * stages >= all * (stage + 1) && stage + 1 < stages)
            stage++;
    }
}

static struct tutti_footprint predicted(const struct tutti_training_row_settings *s,
                                        const struct tutti_workload *model)
{
    uint32_t layers[STAGES_MAX];
    struct tutti_footprint_params params = {
        .size = sizeof(params),
        .model = model,
        .precision = TUTTI_PRECISION_BF16,
        .optimizer = TUTTI_OPTIMIZER_ADAM,
        .micro_batch = (uint64_t)s->micro_batch,
        .micro_batches = (uint32_t)(s->global_batch / (s->dp * s->micro_batch)),
        .tensor = (uint32_t)s->tp,
        .pipeline = (uint32_t)s->pp,
        .one_stage = true,
        .stage_layers = layers,
        .data = (uint32_t)s->dp,
        .sequence_parallel = true, /* nanotron's tensor parallelism reduce-scatters */
        .fused_attention = true,
        .sharding = s->zero_stage == 1 ? TUTTI_SHARD_ZERO1 : TUTTI_SHARD_NONE};
    struct tutti_footprint f = {.stage = 0};
    struct tutti_err err = {""};

    divide(s, model, layers);
    CHECK_OK(tutti_accelerator_find(s->gpu, &params.accelerator, &err), err);
    CHECK_OK(tutti_memory_framework_find(s->framework, &params.framework, &err), err);
    CHECK_OK(tutti_footprint_of(&params, &f, &err), err);
    return f;
}

/* Of a set of rows. */
struct tally {
    const char *name;
    double errors[ROWS_MAX]; /* |predicted / measured - 1| */
    size_t count;
    size_t fit;
    size_t failed;  /* without a result, */
    size_t refused; /* and predicted not to fit */
};

static int by_size(const void *a, const void *b)
{
    const double *x = a;
    const double *y = b;

    return (*x > *y) - (*x < *y);
}

static double quantile(struct tally *tally, double q)
{
    qsort(tally->errors, tally->count, sizeof(tally->errors[0]), by_size);
    return 100 * tally->errors[(size_t)(q * (double)(tally->count - 1) + 0.5)];
}

static void add(struct tally *tally, const struct tutti_training_row *row,
                const struct tutti_footprint *f)
{
    double measured = row->results.memory_GB * 0x1p30;

    if (row->results.memory == TUTTI_TRAINING_MEMORY_STATED) {
        tally->errors[tally->count++] = fabs((double)f->allocated_bytes / measured - 1);
        tally->fit += f->fits;
    } else {
        tally->failed++;
        tally->refused += !f->fits;
    }
}

static size_t summary(struct tally *tally, char *text, size_t text_bytes)
{
    return (size_t)snprintf(
        text, text_bytes,
        "%-36s %4zu ran: error median %4.1f %%, p90 %4.1f %%, worst %5.1f %%; %zu predicted to "
        "fit; %zu of %zu without a result predicted not to\n",
        tally->name, tally->count, quantile(tally, 0.5), quantile(tally, 0.9), quantile(tally, 1),
        tally->fit, tally->refused, tally->failed);
}

static size_t row_text(const struct tutti_training_row *row, bool fitted,
                       const struct tutti_footprint *f, char *text, size_t text_bytes)
{
    const struct tutti_training_row_settings *s = &row->settings;
    double gibi = (double)f->allocated_bytes / 0x1p30;
    char measured[32] = "none";
    char error[32] = "";

    if (row->results.memory == TUTTI_TRAINING_MEMORY_STATED) {
        snprintf(measured, sizeof(measured), "%.1f", row->results.memory_GB);
        snprintf(error, sizeof(error), "%+.1f", 100 * (gibi / row->results.memory_GB - 1));
    }
    return (size_t)snprintf(text, text_bytes,
                            "%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64
                            " %s %.1f %s %s%s\n",
                            s->hidden, s->tp, s->dp, s->zero_stage, s->micro_batch, measured, gibi,
                            f->fits ? "fits" : "no", error, fitted ? " fitted" : "");
}

static const char heading[] =
    "# Memory of a device, GiB as torch.cuda.max_memory_allocated says, beside what\n"
    "# tutti_footprint_of() predicts: the rows of ultrascale.csv; of pipelines, summed up only, "
    "that\n"
    "# of the first stage, which is what was measured. Written by\n"
    "# tests/sim/footprint_rows_test.c (TUTTI_UPDATE_GOLDEN=1). Five constants of nanotron were\n"
    "# fitted to every second of all measured rows of that table, pipelines included: those "
    "marked\n"
    "# 'fitted' here. 'none': no result, for want of memory or another reason.\n"
    "# hidden tp dp zero micro-batch measured predicted fits error_percent\n";

TEST(measured_rows_of_nanotron)
{
    static struct tally all = {.name = "# without pipelines"};
    static struct tally judged = {.name = "# of these, not fitted"};
    static struct tally piped = {.name = "# pipelines"};
    static struct tally piped_judged = {.name = "# pipelines, not fitted"};
    static struct tally single = {.name = "# tensor parallelism of 1"};
    static struct tally single_judged = {.name = "# of 1, not fitted"};
    static char text[TEXT_BYTES];
    struct tutti_training_rows rows;
    struct tutti_err err = {""};
    size_t bytes;
    char *table =
        test_read_file(TUTTI_SOURCE_DIR "/traces/measured/training/ultrascale.csv", &bytes);
    size_t used = (size_t)snprintf(text, sizeof(text), "%s", heading);
    size_t measured = 0;

    CHECK_OK(tutti_training_parse("ultrascale.csv", table, bytes, &rows, &err), err);
    for (size_t i = 0; i < rows.row_count; i++) {
        const struct tutti_training_row *row = &rows.rows[i];
        bool stated = row->results.memory == TUTTI_TRAINING_MEMORY_STATED;
        bool fitted = stated && strcmp(row->quality, "good") == 0 && measured++ % 2 == 0;
        struct tutti_workload *model;
        struct tutti_footprint f;

        if (strcmp(row->quality, "good") != 0 ||
            row->results.memory == TUTTI_TRAINING_MEMORY_UNSTATED ||
            row->settings.pp > row->settings.layers) /* 58 that no one could run */
            continue;
        model = llama_of(&row->settings);
        f = predicted(&row->settings, model);
        tutti_model_free(model);
        if (row->settings.pp > 1) {
            add(&piped, row, &f);
            if (!fitted)
                add(&piped_judged, row, &f);
            continue;
        }
        used += row_text(row, fitted, &f, text + used, sizeof(text) - used);
        add(&all, row, &f);
        if (!fitted)
            add(&judged, row, &f);
        if (row->settings.tp == 1)
            add(&single, row, &f);
        if (row->settings.tp == 1 && !fitted)
            add(&single_judged, row, &f);
    }
    tutti_training_free(&rows);
    free(table);
    used += summary(&all, text + used, sizeof(text) - used);
    used += summary(&judged, text + used, sizeof(text) - used);
    used += summary(&piped, text + used, sizeof(text) - used);
    used += summary(&piped_judged, text + used, sizeof(text) - used);
    used += summary(&single, text + used, sizeof(text) - used);
    used += summary(&single_judged, text + used, sizeof(text) - used);
    CHECK(used < sizeof(text));
    CHECK(single.count >= 19);
    CHECK(quantile(&single, 0.5) < 12);
    CHECK(quantile(&single, 0.9) < 30);
    CHECK(quantile(&judged, 0.5) < 12);
    CHECK(single.fit * 100 >= single.count * 97);
    CHECK(all.fit * 100 >= all.count * 97);
    CHECK(piped.count >= 711);
    CHECK(quantile(&piped_judged, 0.5) < 12);
    CHECK(quantile(&piped_judged, 0.9) < 30);
    CHECK(piped.fit * 100 >= piped.count * 97);
    test_golden("../../traces/measured/training/footprint.txt", text);
}
