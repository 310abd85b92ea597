/* Where the time of real steps went, beside what was predicted; see real.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/sink.h"
#include "tools/train/real.h"

static double seconds(tutti_ps ps)
{
    return (double)ps / (double)TUTTI_PS_PER_S;
}

/* Emulated, work takes what it takes in the simulator. */
static double computed_s(const struct tutti_train_real *real, const struct tutti_trained *step,
                         uint32_t rank)
{
    const double all_s = real->emulation.topo != NULL
                             ? seconds(real->emulation.compute_ps[rank])
                             : tutti_trainer_computed_s(real->trainer, rank);

    return all_s / step->step_count;
}

struct tutti_train_parts tutti_train_real_parts(const struct tutti_train_real *real,
                                                const struct tutti_trained *step)
{
    const uint32_t count = real->run.rank_count;
    struct tutti_train_parts parts = {.input_s = seconds(step->input_ps) / step->step_count,
                                      .update_s = seconds(step->update_ps) / step->step_count};

    if (real->emulation.topo != NULL) {
        parts = real->predicted;
    } else {
        for (uint32_t i = 0; i < count; i++)
            parts.compute_s += tutti_trainer_layers_s(real->trainer, i) / step->step_count / count;
    }
    parts.step_s = seconds(step->step_ps) / step->step_count;
    parts.exposed_s = fmax(parts.step_s - parts.compute_s - parts.input_s - parts.update_s, 0);
    return parts;
}

double tutti_train_real_waiting_s(const struct tutti_train_real *real,
                                  const struct tutti_trained *step, uint32_t rank)
{
    return fmax(seconds(step->step_ps) / step->step_count - computed_s(real, step, rank), 0);
}

/* ---- medians --------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Of the double that lies `at` bytes into each step. */
static double median(const struct tutti_train_real_page *page, size_t at)
{
    double *values = calloc((size_t)page->count + 1, sizeof(*values));
    double middle = NAN;

    for (uint64_t i = 0; i < page->count && values != NULL; i++)
        values[i] =
            *(const double *)(const void *)((const char *)(const void *)&page->steps[i] + at);
    if (values != NULL && page->count > 0) {
        qsort(values, (size_t)page->count, sizeof(*values), by_value);
        middle = values[page->count / 2];
    }
    free(values);
    return middle;
}

struct tutti_train_parts tutti_train_real_median(const struct tutti_train_real_page *page)
{
    return (struct tutti_train_parts){
        .step_s = median(page, offsetof(struct tutti_train_parts, step_s)),
        .compute_s = median(page, offsetof(struct tutti_train_parts, compute_s)),
        .exposed_s = median(page, offsetof(struct tutti_train_parts, exposed_s)),
        .input_s = median(page, offsetof(struct tutti_train_parts, input_s)),
        .update_s = median(page, offsetof(struct tutti_train_parts, update_s))};
}

/* ---- printing -------------------------------------------------------------------------------- */

static void print_parts(const char *what, const struct tutti_train_parts *p, FILE *out)
{
    fprintf(out, "# %s %.4g ms: compute %.4g, communication exposed %.4g, input %.4g, ", what,
            1e3 * p->step_s, 1e3 * p->compute_s, 1e3 * p->exposed_s, 1e3 * p->input_s);
    fprintf(out, "optimizer %.4g\n", 1e3 * p->update_s);
}

void tutti_train_real_print_parts(const struct tutti_train_real_page *page,
                                  const struct tutti_train_real *real,
                                  const struct tutti_train_parts *parts)
{
    FILE *out = page->sink->out;
    const uint32_t count = real->run.rank_count;
    uint32_t least = 0;
    uint32_t most = 0;

    print_parts("median step ", parts, out);
    if (real->predicted.step_s > 0)
        print_parts("predicted   ", &real->predicted, out);
    for (uint32_t i = 1; i < count; i++) {
        least = page->waiting_s[i] < page->waiting_s[least] ? i : least;
        most = page->waiting_s[i] > page->waiting_s[most] ? i : most;
    }
    if (count > 1)
        fprintf(out, "# waiting      %.4g ms a step (rank %u) to %.4g (rank %u)\n",
                1e3 * page->waiting_s[least] / (double)page->count, least,
                1e3 * page->waiting_s[most] / (double)page->count, most);
}

static void json_parts(const char *key, const struct tutti_train_parts *p, FILE *out)
{
    fprintf(out, ",\"%s\":{\"compute\":%.9g,\"exposed\":%.9g,\"input\":%.9g,", key, p->compute_s,
            p->exposed_s, p->input_s);
    fprintf(out, "\"optimizer\":%.9g}", p->update_s);
}

void tutti_train_real_json_parts(const struct tutti_train_real_page *page,
                                 const struct tutti_train_real *real,
                                 const struct tutti_train_parts *parts)
{
    FILE *out = page->sink->out;

    json_parts("breakdown_s", parts, out);
    if (real->predicted.step_s > 0) {
        fprintf(out, ",\"predicted_step_s\":%.12g", real->predicted.step_s);
        json_parts("predicted_breakdown_s", &real->predicted, out);
    }
    if (real->run.rank_count > 1 && real->run.rank_count <= TUTTI_TRAIN_REAL_RANKS_SHOWN) {
        fputs(",\"mean_waiting_by_rank_s\":[", out);
        for (uint32_t i = 0; i < real->run.rank_count; i++)
            fprintf(out, "%s%.6g", i > 0 ? "," : "", page->waiting_s[i] / (double)page->count);
        fputc(']', out);
    }
    if (real->emulation.topo != NULL)
        tutti_train_emulation_json(&real->emulation, out);
}
