/* What real training prints: a line of JSON a step, or a table; see real.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "build.h"
#include "runtime/status.h"
#include "tools/cli/output.h"
#include "tools/sink.h"
#include "tools/train/real.h"

static double seconds(tutti_ps ps)
{
    return (double)ps / (double)TUTTI_PS_PER_S;
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
    fprintf(out, "# learns:   %s, rate %.4g; products by %s\n", real->optimizer,
            real->params.optimizer.rate, tutti_train_products_name());
    fprintf(out, "%8s %12s %9s %10s %12s %10s %10s\n", "step", "loss", "accuracy", "time",
            "examples", "waiting", "gradient");
    fprintf(out, "%8s %12s %9s %10s %12s %10s %10s\n", "", "", "%", "ms", "1/s", "ms", "norm");
}

int tutti_train_real_page_open(const struct tutti_args *args, const struct tutti_train_real *real,
                               struct tutti_sink *sink, struct tutti_train_real_page *ret,
                               struct tutti_err *err)
{
    struct tutti_train_real_page page = {.sink = sink};

    page.steps_s = calloc((size_t)real->steps + 1, sizeof(page.steps_s[0]));
    if (page.steps_s == NULL)
        return tutti_nomem(err);
    if (sink != NULL) {
        page.table = tutti_args_given(args, "format") ? tutti_args_is(args, "format", "table")
                                                      : sink->out_terminal;
        if (page.table && !sink->quiet)
            print_head(real, sink->out);
    }
    *ret = page;
    return 0;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Of a long training a table has a hundred rows, not all. */
static bool is_row(const struct tutti_train_real *real, uint64_t step)
{
    uint64_t every = (real->steps + 99) / 100;

    return every <= 1 || (step + 1) % every == 0 || step == 0 || step + 1 == real->steps;
}

void tutti_train_real_print_step(struct tutti_train_real_page *page,
                                 const struct tutti_train_real *real,
                                 const struct tutti_trained *step)
{
    const double step_s = seconds(step->step_ps);
    const double waiting_s = fmax(step_s - seconds(step->compute_ps), 0);
    const double loss = mean(step->sums.loss, step->sums.examples);
    FILE *out;

    page->steps_s[page->count++] = step_s;
    page->last = step->sums;
    if (page->sink == NULL)
        return;
    out = page->sink->out;
    if (page->table) {
        if (is_row(real, step->step))
            fprintf(out, "%8" PRIu64 " %12.6g %9.4g %10.4g %12.6g %10.4g %10.4g%s\n",
                    step->step + 1, loss, 100 * accuracy(real, &step->sums), 1e3 * step_s,
                    step->sums.examples / step_s, 1e3 * waiting_s, step->gradient_norm,
                    step->skipped ? "  skipped: not finite" : "");
        fflush(out);
        return;
    }
    fprintf(out, "{\"step\":%" PRIu64, step->step + 1);
    member(out, ",", "loss", loss);
    member(out, ",", "accuracy", accuracy(real, &step->sums));
    member(out, ",", "step_s", step_s);
    member(out, ",", "examples_per_s", step->sums.examples / step_s);
    member(out, ",", "waiting_s", waiting_s);
    member(out, ",", "grad_norm", step->gradient_norm);
    member(out, ",", "learning_rate", step->learning_rate);
    if (real->params.gradients == TUTTI_FLOAT16)
        member(out, ",", "loss_scale", step->loss_scale);
    if (step->skipped)
        fputs(",\"skipped\":true", out);
    fputs("}\n", out);
    fflush(out);
}

void tutti_train_real_print_held_out(struct tutti_train_real_page *page,
                                     const struct tutti_train_real *real, uint64_t step,
                                     const struct tutti_sums *sums)
{
    const double loss = mean(sums->loss, sums->examples);

    if (page->sink == NULL)
        return;
    if (page->table) {
        fprintf(page->sink->out, "# held out: step %" PRIu64 ", loss %.6g", step, loss);
        if (real->facts.classes > 0)
            fprintf(page->sink->out, ", accuracy %.2f %%", 100 * accuracy(real, sums));
        fprintf(page->sink->out, ", %.0f examples\n", sums->examples);
        return;
    }
    fprintf(page->sink->out, "{\"held_out\":{\"step\":%" PRIu64, step);
    member(page->sink->out, ",", "loss", loss);
    member(page->sink->out, ",", "accuracy", accuracy(real, sums));
    member(page->sink->out, ",", "examples", sums->examples);
    fputs("}}\n", page->sink->out);
    fflush(page->sink->out);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

void tutti_train_real_print_final(struct tutti_train_real_page *page,
                                  const struct tutti_train_real *real,
                                  const struct tutti_sums *held_out, uint64_t weights_hash)
{
    FILE *out;
    double median_s = 0;

    qsort(page->steps_s, page->count, sizeof(page->steps_s[0]), by_value);
    median_s = page->count > 0 ? page->steps_s[page->count / 2] : NAN;
    if (page->sink == NULL)
        return;
    out = page->sink->out;
    if (page->table) {
        if (real->evaluate_end)
            tutti_train_real_print_held_out(page, real, page->count, held_out);
        fprintf(out, "# median step %.4g ms; weights %016" PRIx64 "\n", 1e3 * median_s,
                weights_hash);
        return;
    }
    fprintf(out, "{\"final\":{\"steps\":%" PRIu64, page->count);
    member(out, ",", "loss", mean(page->last.loss, page->last.examples));
    member(out, ",", "accuracy", accuracy(real, &page->last));
    member(out, ",", "median_step_s", median_s);
    if (real->evaluate_end) {
        member(out, ",", "held_out_loss", mean(held_out->loss, held_out->examples));
        member(out, ",", "held_out_accuracy", accuracy(real, held_out));
        member(out, ",", "held_out_examples", held_out->examples);
    }
    fprintf(out, ",\"weights\":\"%016" PRIx64 "\"}}\n", weights_hash);
}

void tutti_train_real_print_stopped(struct tutti_train_real_page *page, uint64_t steps)
{
    if (page->sink == NULL)
        return;
    fprintf(page->sink->out,
            page->table ? "# stopped after step %" PRIu64 ", which is saved\n"
                        : "{\"stopped\":{\"step\":%" PRIu64 "}}\n",
            steps);
}

void tutti_train_real_page_done(struct tutti_train_real_page *page)
{
    free(page->steps_s);
    page->steps_s = NULL;
}
