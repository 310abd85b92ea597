/* What real training prints: a line of JSON a step, or a table; see real.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "build.h"
#include "runtime/status.h"
#include "tools/cli/output.h"
#include "tools/sink.h"
#include "tools/train/real.h"
#include "tools/train/slices.h"
#include "traces/tensorboard.h"

static double seconds(tutti_ps ps)
{
    return (double)ps / (double)TUTTI_PS_PER_S;
}

/* Of one of the steps that were made. */
static double step_seconds(const struct tutti_trained *step)
{
    return seconds(step->step_ps) / step->step_count;
}

static double examples_per_s(const struct tutti_trained *step)
{
    return step->sums.examples / seconds(step->step_ps);
}

/* NaN where there is nothing to divide by: null in JSON. */
static double mean(double sum, double count)
{
    return count > 0 ? sum / count : NAN;
}

static double accuracy(const struct tutti_train_real *real, const struct tutti_sums *sums)
{
    return real->facts.classes > 0 ? mean(sums->correct, sums->examples) : NAN;
}

static void member(FILE *out, const char *before, const char *key, double value)
{
    if (isfinite(value))
        fprintf(out, "%s\"%s\":%.9g", before, key, value);
    else
        fprintf(out, "%s\"%s\":null", before, key);
}

static double wall_s(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the head -------------------------------------------------------------------------------- */

static void print_head(const struct tutti_train_real *real, FILE *out)
{
    const struct tutti_net_learner_params *d = &real->data;

    fprintf(out, "# tutti %s train: %s by %s, really, %u rank%s on %s\n", TUTTI_BUILD_VERSION,
            real->model->name, real->strategy.name, real->run.rank_count,
            real->run.rank_count == 1 ? "" : "s", real->run.backend->name);
    fprintf(out,
            "# data:     %s, %" PRIu64 " examples, %" PRIu64 " held out; global batch %" PRIu64
            "%s, %" PRIu64 " steps an epoch\n",
            d->data != NULL ? d->data : "synthetic", real->facts.examples, real->facts.held_out,
            d->global_batch, d->micro_batches > 1 ? " in micro-batches" : "",
            real->facts.epoch_steps);
    if (real->params.parallel != NULL)
        fprintf(out, "# parts:    tp %u x dp %u x pp %u%s%s, %u micro-batches\n", real->cut.tensor,
                real->cut.data, real->cut.pipeline, real->cut.pipeline > 1 ? ", " : "",
                real->cut.pipeline > 1 ? tutti_pipeline_name(real->cut.schedule) : "",
                d->micro_batches);
    tutti_train_slices_print(&(struct tutti_train_slices_ask){.model = real->model,
                                                              .strategy = &real->strategy,
                                                              .rank_count = real->run.rank_count,
                                                              .samples = real->params.samples},
                             out);
    fprintf(out, "# learns:   %s, rate %.4g; products by %s\n", real->optimizer,
            real->params.optimizer.rate, tutti_train_products_name());
    if (real->emulation.topo != NULL)
        tutti_train_emulation_print_head(&real->emulation, out);
    fprintf(out, "%8s %12s %9s %10s%s %12s %10s %10s\n", "step", "loss", "accuracy", "time",
            real->predicted.step_s > 0 ? "  predicted" : "", "examples", "waiting", "gradient");
    fprintf(out, "%8s %12s %9s %10s%s %12s %10s %10s\n", "", "", "%", "ms",
            real->predicted.step_s > 0 ? "         ms" : "", "1/s", "ms", "norm");
}

int tutti_train_real_page_open(const struct tutti_args *args, const struct tutti_train_real *real,
                               struct tutti_sink *sink, struct tutti_train_real_page *ret,
                               struct tutti_err *err)
{
    struct tutti_train_real_page page = {.sink = sink};
    int status = 0;

    page.steps = calloc((size_t)real->steps + 1, sizeof(page.steps[0]));
    page.waiting_s = calloc(real->run.rank_count, sizeof(page.waiting_s[0]));
    if (page.steps == NULL || page.waiting_s == NULL)
        status = tutti_nomem(err);
    if (status == 0 && sink != NULL) {
        page.table = tutti_args_given(args, "format") ? tutti_args_is(args, "format", "table")
                                                      : sink->out_terminal;
        if (page.table && !sink->quiet)
            print_head(real, sink->out);
    }
    if (status == 0 && sink != NULL && real->events != NULL)
        status = tutti_tensorboard_open(real->events, NULL, wall_s(), &page.events, err);
    if (status < 0) {
        free(page.steps);
        free(page.waiting_s);
    }
    *ret = page;
    return status;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Of a long training a table has a hundred rows, not all. */
static bool is_row(const struct tutti_train_real *real, const struct tutti_trained *step)
{
    const uint64_t every = (real->steps + 99) / 100;
    const uint64_t end = step->step + step->step_count;

    return every <= 1 || end / every > step->step / every || step->step == 0 || end == real->steps;
}

/* ---- events ---------------------------------------------------------------------------------- */

static int add_scalar(struct tutti_train_real_page *page, uint64_t step, const char *tag,
                      double value, struct tutti_err *err)
{
    if (page->events == NULL || !isfinite(value))
        return 0;
    return tutti_tensorboard_scalar(page->events, wall_s(), (int64_t)step, tag, value, err);
}

/* A page of a folder that somebody watches: once a second is often enough. */
static int flush_events(struct tutti_train_real_page *page, struct tutti_err *err)
{
    double now_s = wall_s();

    if (page->events == NULL || now_s < page->flushed_s + 1)
        return 0;
    page->flushed_s = now_s;
    return tutti_tensorboard_flush(page->events, err);
}

static int note_step(struct tutti_train_real_page *page, const struct tutti_train_real *real,
                     const struct tutti_trained *step, struct tutti_err *err)
{
    const struct {
        const char *tag;
        double value;
    } scalars[] = {{"train/loss", mean(step->sums.loss, step->sums.examples)},
                   {"train/accuracy", accuracy(real, &step->sums)},
                   {"train/gradient_norm", step->gradient_norm},
                   {"train/learning_rate", step->learning_rate},
                   {"speed/step_s", step_seconds(step)},
                   {"speed/examples_per_s", examples_per_s(step)},
                   {"speed/waiting_s", tutti_train_real_waiting_s(real, step, real->first_rank)}};
    int status = 0;

    for (size_t i = 0; i < sizeof(scalars) / sizeof(scalars[0]) && status == 0; i++)
        status =
            add_scalar(page, step->step + step->step_count, scalars[i].tag, scalars[i].value, err);
    return status < 0 ? status : flush_events(page, err);
}

int tutti_train_real_note_weights(struct tutti_train_real_page *page,
                                  const struct tutti_train_real *real, const float *weights,
                                  struct tutti_err *err)
{
    char tag[256];
    int status = 0;

    if (page->events == NULL || !real->evaluate_end)
        return 0;
    for (uint32_t i = 0; i < real->model->layer_count; i++) {
        const struct tutti_layer *layer = &real->model->layers[i];

        for (uint32_t k = 0; k < layer->repeat; k++)
            for (uint32_t v = 0; v < layer->variable_count && status == 0; v++) {
                (void)snprintf(tag, sizeof(tag), "weights/%.64s.%u/%.64s", layer->name, k,
                               layer->variables[v].name);
                status = tutti_tensorboard_histogram(
                    page->events, wall_s(), (int64_t)tutti_trainer_steps(real->trainer), tag,
                    weights, (size_t)layer->variables[v].elements, err);
                weights += layer->variables[v].elements;
            }
    }
    return status;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void print_row(const struct tutti_train_real_page *page, const struct tutti_train_real *real,
                      const struct tutti_trained *step)
{
    FILE *out = page->sink->out;

    if (!is_row(real, step))
        return;
    fprintf(out, "%8" PRIu64 " %12.6g %9.4g %10.4g", step->step + step->step_count,
            mean(step->sums.loss, step->sums.examples), 100 * accuracy(real, &step->sums),
            1e3 * step_seconds(step));
    if (real->predicted.step_s > 0)
        fprintf(out, " %10.4g", 1e3 * real->predicted.step_s);
    fprintf(out, " %12.6g %10.4g %10.4g%s\n", examples_per_s(step),
            1e3 * tutti_train_real_waiting_s(real, step, real->first_rank), step->gradient_norm,
            step->skipped ? "  skipped: not finite" : "");
}

static void print_line(const struct tutti_train_real_page *page,
                       const struct tutti_train_real *real, const struct tutti_trained *step)
{
    FILE *out = page->sink->out;

    fprintf(out, "{\"step\":%" PRIu64, step->step + step->step_count);
    member(out, ",", "loss", mean(step->sums.loss, step->sums.examples));
    member(out, ",", "accuracy", accuracy(real, &step->sums));
    member(out, ",", "step_s", step_seconds(step));
    if (real->predicted.step_s > 0)
        member(out, ",", "predicted_step_s", real->predicted.step_s);
    member(out, ",", "examples_per_s", examples_per_s(step));
    member(out, ",", "waiting_s", tutti_train_real_waiting_s(real, step, real->first_rank));
    if (real->run.rank_count > 1 && real->run.rank_count <= TUTTI_TRAIN_REAL_RANKS_SHOWN) {
        fputs(",\"waiting_by_rank_s\":[", out);
        for (uint32_t i = 0; i < real->run.rank_count; i++)
            fprintf(out, "%s%.6g", i > 0 ? "," : "", tutti_train_real_waiting_s(real, step, i));
        fputc(']', out);
    }
    member(out, ",", "grad_norm", step->gradient_norm);
    member(out, ",", "learning_rate", step->learning_rate);
    if (real->params.gradients == TUTTI_FLOAT16)
        member(out, ",", "loss_scale", step->loss_scale);
    if (step->skipped)
        fputs(",\"skipped\":true", out);
    fputs("}\n", out);
}

int tutti_train_real_print_step(struct tutti_train_real_page *page,
                                const struct tutti_train_real *real,
                                const struct tutti_trained *step, struct tutti_err *err)
{
    page->steps[page->count++] = tutti_train_real_parts(real, step);
    page->last = step->sums;
    if (page->sink == NULL)
        return 0;
    for (uint32_t i = 0; i < real->run.rank_count; i++)
        page->waiting_s[i] += tutti_train_real_waiting_s(real, step, i);
    if (page->table)
        print_row(page, real, step);
    else
        print_line(page, real, step);
    fflush(page->sink->out);
    return note_step(page, real, step, err);
}

int tutti_train_real_print_held_out(struct tutti_train_real_page *page,
                                    const struct tutti_train_real *real, uint64_t step,
                                    const struct tutti_sums *sums, struct tutti_err *err)
{
    const double loss = mean(sums->loss, sums->examples);
    int status;

    if (page->sink == NULL)
        return 0;
    status = add_scalar(page, step, "held_out/loss", loss, err);
    if (status == 0)
        status = add_scalar(page, step, "held_out/accuracy", accuracy(real, sums), err);
    if (page->table) {
        fprintf(page->sink->out, "# held out: step %" PRIu64 ", loss %.6g", step, loss);
        if (real->facts.classes > 0)
            fprintf(page->sink->out, ", accuracy %.2f %%", 100 * accuracy(real, sums));
        fprintf(page->sink->out, ", %.0f examples\n", sums->examples);
        return status;
    }
    fprintf(page->sink->out, "{\"held_out\":{\"step\":%" PRIu64, step);
    member(page->sink->out, ",", "loss", loss);
    member(page->sink->out, ",", "accuracy", accuracy(real, sums));
    member(page->sink->out, ",", "examples", sums->examples);
    fputs("}}\n", page->sink->out);
    fflush(page->sink->out);
    return status;
}

int tutti_train_real_print_final(struct tutti_train_real_page *page,
                                 const struct tutti_train_real *real,
                                 const struct tutti_sums *held_out, uint64_t weights_hash,
                                 struct tutti_err *err)
{
    const uint64_t steps = tutti_trainer_steps(real->trainer);
    const struct tutti_train_parts parts = tutti_train_real_median(page);
    FILE *out;
    int status = 0;

    if (page->sink == NULL)
        return 0;
    out = page->sink->out;
    if (real->emulation.topo != NULL && page->count > 0)
        tutti_train_emulation_note(&real->emulation,
                                   100 * (parts.step_s / real->predicted.step_s - 1), page->sink);
    if (page->table) {
        if (real->evaluate_end)
            status = tutti_train_real_print_held_out(page, real, steps, held_out, err);
        if (page->count > 0)
            tutti_train_real_print_parts(page, real, &parts);
        fprintf(out, "# weights %016" PRIx64 "\n", weights_hash);
        return status;
    }
    if (real->evaluate_end) {
        status =
            add_scalar(page, steps, "held_out/loss", mean(held_out->loss, held_out->examples), err);
        if (status == 0)
            status = add_scalar(page, steps, "held_out/accuracy", accuracy(real, held_out), err);
    }
    fprintf(out, "{\"final\":{\"steps\":%" PRIu64, steps);
    if (page->count > 0) { /* else nothing was trained: --evaluate-only, or all was restored */
        member(out, ",", "loss", mean(page->last.loss, page->last.examples));
        member(out, ",", "accuracy", accuracy(real, &page->last));
        member(out, ",", "median_step_s", parts.step_s);
        tutti_train_real_json_parts(page, real, &parts);
    }
    if (real->evaluate_end) {
        member(out, ",", "held_out_loss", mean(held_out->loss, held_out->examples));
        member(out, ",", "held_out_accuracy", accuracy(real, held_out));
        member(out, ",", "held_out_examples", held_out->examples);
    }
    fprintf(out, ",\"weights\":\"%016" PRIx64 "\"}}\n", weights_hash);
    fflush(out);
    return status;
}

void tutti_train_real_print_stopped(struct tutti_train_real_page *page, uint64_t steps)
{
    if (page->sink == NULL)
        return;
    fprintf(page->sink->out,
            page->table ? "# stopped after step %" PRIu64 ", which is saved\n"
                        : "{\"stopped\":{\"step\":%" PRIu64 "}}\n",
            steps);
    fflush(page->sink->out);
}

int tutti_train_real_page_done(struct tutti_train_real_page *page, struct tutti_err *err)
{
    free(page->steps);
    free(page->waiting_s);
    page->steps = NULL;
    page->waiting_s = NULL;
    return tutti_tensorboard_close(page->events, err);
}
