/* What the chief of a training by servers prints: a line of JSON a step, or a table; see ps.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <time.h>

#include "build.h"
#include "runtime/model.h"
#include "runtime/status.h"
#include "tools/sink.h"
#include "tools/train/ps.h"
#include "traces/tensorboard.h"

static double wall_s(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* NaN where there is nothing to divide by: null in JSON. */
static double mean(double sum, double count)
{
    return count > 0 ? sum / count : NAN;
}

static double accuracy(const struct tutti_train_ps_page *page, const struct tutti_sums *sums)
{
    return page->real->facts.classes > 0 ? mean(sums->correct, sums->examples) : NAN;
}

static void member(FILE *out, const char *before, const char *key, double value)
{
    if (isfinite(value))
        fprintf(out, "%s\"%s\":%.9g", before, key, value);
    else
        fprintf(out, "%s\"%s\":null", before, key);
}

/* ---- the head -------------------------------------------------------------------------------- */

static void print_head(const struct tutti_train_real *real, const struct tutti_servers_params *p,
                       const struct tutti_train_ps_emulation *emulation, FILE *out)
{
    fprintf(out, "# tutti %s train: %s by parameter-server, really, %u server%s, %u worker%s%s\n",
            TUTTI_BUILD_VERSION, real->model->name, p->server_count,
            p->server_count == 1 ? "" : "s", p->worker_count, p->worker_count == 1 ? "" : "s",
            p->has_chief ? " and a chief" : ", of which worker 0 is the chief");
    fprintf(out,
            "# data:     %s, %" PRIu64 " examples, %" PRIu64 " held out; batch %" PRIu64
            " a worker, %" PRIu64 " of them an epoch\n",
            real->data.data != NULL ? real->data.data : "synthetic", real->facts.examples,
            real->facts.held_out, real->data.global_batch, real->facts.epoch_steps);
    fprintf(out, "# learns:   %s, rate %.4g; products by %s\n", real->optimizer,
            real->params.optimizer.rate, tutti_train_products_name());
    if (p->synchronous)
        fprintf(out, "# steps:    the mean of %u gradients of %u workers\n",
                p->aggregate > 0 ? p->aggregate : p->worker_count, p->worker_count);
    else
        fprintf(out, "# steps:    one of each gradient, as it comes\n");
    tutti_train_ps_emulation_head(emulation, out);
    fprintf(out, "%8s %7s %12s %9s %10s %10s %10s\n", "step", "worker", "loss", "accuracy", "time",
            "staleness", "gradient");
    fprintf(out, "%8s %7s %12s %9s %10s %10s %10s\n", "", "", "", "%", "ms", "updates", "norm");
}

int tutti_train_ps_page_open(const struct tutti_args *args, const struct tutti_train_real *real,
                             const struct tutti_servers_params *params, struct tutti_sink *sink,
                             struct tutti_train_ps_page *ret, struct tutti_err *err)
{
    *ret = (struct tutti_train_ps_page){.sink = sink, .real = real, .emulation = ret->emulation};
    if (sink == NULL)
        return 0;
    ret->table = tutti_args_given(args, "format") ? tutti_args_is(args, "format", "table")
                                                  : sink->out_terminal;
    if (ret->table && !sink->quiet)
        print_head(real, params, ret->emulation, sink->out);
    if (real->events == NULL)
        return 0;
    return tutti_tensorboard_open(real->events, NULL, wall_s(), &ret->events, err);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static int note_events(struct tutti_train_ps_page *page, const struct tutti_servers_told *told,
                       double step_s, struct tutti_err *err)
{
    const struct {
        const char *tag;
        double value;
    } scalars[] = {{"train/loss", mean(told->sums.loss, told->sums.examples)},
                   {"train/accuracy", accuracy(page, &told->sums)},
                   {"train/gradient_norm", told->gradient_norm},
                   {"servers/staleness", (double)told->staleness},
                   {"speed/step_s", step_s}};
    int status = 0;

    for (size_t i = 0; i < sizeof(scalars) / sizeof(scalars[0]) && status == 0; i++)
        if (isfinite(scalars[i].value))
            status = tutti_tensorboard_scalar(page->events, wall_s(), (int64_t)told->step,
                                              scalars[i].tag, scalars[i].value, err);
    if (status < 0 || wall_s() < page->flushed_s + 1)
        return status;
    page->flushed_s = wall_s();
    return tutti_tensorboard_flush(page->events, err);
}

static void print_line(const struct tutti_train_ps_page *page,
                       const struct tutti_servers_told *told, double step_s)
{
    FILE *out = page->sink->out;

    fprintf(out, "{\"step\":%" PRIu64 ",\"worker\":%u", told->step, told->worker);
    member(out, ",", "loss", mean(told->sums.loss, told->sums.examples));
    member(out, ",", "accuracy", accuracy(page, &told->sums));
    member(out, ",", "step_s", step_s);
    member(out, ",", "examples_per_s", step_s > 0 ? told->sums.examples / step_s : NAN);
    member(out, ",", "compute_s", told->compute_s);
    member(out, ",", "grad_norm", told->gradient_norm);
    fprintf(out, ",\"gradients\":%u,\"staleness\":%" PRIu64 ",\"dropped\":%" PRIu64 "}\n",
            told->gradients, told->staleness, told->dropped);
}

/* Of a long training a table has a hundred rows, not all. */
static bool is_row(const struct tutti_train_ps_page *page, const struct tutti_servers_told *told)
{
    const uint64_t every = (page->real->steps + 99) / 100;

    return every <= 1 || told->step % every == 0 || page->printed == 0;
}

static void print_row(const struct tutti_train_ps_page *page, const struct tutti_servers_told *told,
                      double step_s)
{
    if (!is_row(page, told))
        return;
    fprintf(page->sink->out, "%8" PRIu64 " %7u %12.6g %9.4g %10.4g %10" PRIu64 " %10.4g\n",
            told->step, told->worker, mean(told->sums.loss, told->sums.examples),
            100 * accuracy(page, &told->sums), 1e3 * step_s, told->staleness, told->gradient_norm);
}

int tutti_train_ps_print_step(struct tutti_train_ps_page *page,
                              const struct tutti_servers_told *told, struct tutti_err *err)
{
    const double step_s = page->printed > 0 ? told->at_s - page->before_s : NAN;

    page->last = *told;
    page->before_s = told->at_s;
    if (page->sink == NULL)
        return 0;
    if (page->table)
        print_row(page, told, step_s);
    else
        print_line(page, told, step_s);
    page->printed++;
    (void)fflush(page->sink->out);
    return page->events != NULL ? note_events(page, told, step_s, err) : 0;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void print_numbers(FILE *out, const char *key, const uint64_t *values, uint32_t count)
{
    fprintf(out, ",\"%s\":[", key);
    for (uint32_t i = 0; i < count; i++)
        fprintf(out, "%s%" PRIu64, i > 0 ? "," : "", values[i]);
    fputc(']', out);
}

/* Bins up to the last that has any. */
static uint32_t bins_of(const struct tutti_servers_result *r)
{
    uint32_t count = TUTTI_SERVERS_STALENESS_BINS;

    while (count > 1 && r->staleness[count - 1] == 0)
        count--;
    return count;
}

static void print_final_table(const struct tutti_train_ps_page *page,
                              const struct tutti_servers_result *r,
                              const struct tutti_sums *held_out, uint64_t weights_hash)
{
    FILE *out = page->sink->out;
    const uint32_t bins = bins_of(r);

    if (held_out != NULL) {
        fprintf(out, "# held out: step %" PRIu64 ", loss %.6g", r->steps,
                mean(held_out->loss, held_out->examples));
        if (page->real->facts.classes > 0)
            fprintf(out, ", accuracy %.2f %%", 100 * accuracy(page, held_out));
        fprintf(out, ", %.0f examples\n", held_out->examples);
    }
    fprintf(out, "# %s %" PRIu64 " steps; gradients by worker",
            r->stopped ? "stopped after" : "made", r->steps);
    for (uint32_t w = 0; w < r->worker_count; w++)
        fprintf(out, " %" PRIu64, r->by_worker[w]);
    fprintf(out, "\n# staleness mean %.4g, most %" PRIu64 "; gradients by staleness",
            mean((double)r->staleness_sum, (double)r->applied), r->staleness_max);
    for (uint32_t i = 0; i < bins; i++)
        fprintf(out, " %" PRIu64, r->staleness[i]);
    fprintf(out,
            "\n# dropped: %" PRIu64 " stale, %" PRIu64 " late; lost: %" PRIu64 "; set up %" PRIu64
            " time%s\n",
            r->dropped_stale, r->dropped_late, r->lost, r->set_up, r->set_up == 1 ? "" : "s");
    fprintf(out, "# weights %016" PRIx64 "\n", weights_hash);
    tutti_train_ps_emulation_print(page->emulation, out);
}

static void print_final_line(const struct tutti_train_ps_page *page,
                             const struct tutti_servers_result *r,
                             const struct tutti_sums *held_out, uint64_t weights_hash)
{
    FILE *out = page->sink->out;
    const struct tutti_sums *last = &page->last.sums;

    fprintf(out, "{\"%s\":{\"steps\":%" PRIu64, r->stopped ? "stopped" : "final", r->steps);
    member(out, ",", "loss", mean(last->loss, last->examples));
    member(out, ",", "accuracy", accuracy(page, last));
    print_numbers(out, "steps_by_worker", r->by_worker, r->worker_count);
    member(out, ",", "mean_staleness", mean((double)r->staleness_sum, (double)r->applied));
    print_numbers(out, "staleness", r->staleness, bins_of(r));
    fprintf(out,
            ",\"applied\":%" PRIu64 ",\"dropped_stale\":%" PRIu64 ",\"dropped_late\":%" PRIu64
            ",\"lost\":%" PRIu64 ",\"set_up\":%" PRIu64,
            r->applied, r->dropped_stale, r->dropped_late, r->lost, r->set_up);
    if (held_out != NULL) {
        member(out, ",", "held_out_loss", mean(held_out->loss, held_out->examples));
        member(out, ",", "held_out_accuracy", accuracy(page, held_out));
        member(out, ",", "held_out_examples", held_out->examples);
    }
    tutti_train_ps_emulation_json(page->emulation, out);
    fprintf(out, ",\"weights\":\"%016" PRIx64 "\"}}\n", weights_hash);
}

int tutti_train_ps_print_final(struct tutti_train_ps_page *page,
                               const struct tutti_servers_result *result,
                               const struct tutti_sums *held_out, uint64_t weights_hash,
                               struct tutti_err *err)
{
    int status = 0;

    if (page->sink == NULL)
        return 0;
    if (page->events != NULL && held_out != NULL)
        status = tutti_tensorboard_scalar(page->events, wall_s(), (int64_t)result->steps,
                                          "held_out/loss", mean(held_out->loss, held_out->examples),
                                          err);
    if (page->table)
        print_final_table(page, result, held_out, weights_hash);
    else
        print_final_line(page, result, held_out, weights_hash);
    (void)fflush(page->sink->out);
    return status;
}

int tutti_train_ps_page_done(struct tutti_train_ps_page *page, struct tutti_err *err)
{
    return tutti_tensorboard_close(page->events, err);
}
