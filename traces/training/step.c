/* How long a step of a row took, or why that is not known. */
#include <math.h>
#include <string.h>

#include "traces/training/reading.h"

enum per { SAMPLE, TOKEN, STEP, SECONDS, TRAINING };

static const struct {
    const char *unit; /* it begins so */
    enum per per;
    double scale;
} units[] = {
    {"images/s", SAMPLE, 1},
    {"sequences/s", SAMPLE, 1},
    {"sentences/s", SAMPLE, 1},
    {"samples/s", SAMPLE, 1},
    {"tokens/s", TOKEN, 1},
    {"words/s", TOKEN, 1},
    {"iterations/s", STEP, 1},
    {"steps/s", STEP, 1},
    {"s/iteration", SECONDS, 1},
    {"s/step", SECONDS, 1},
    {"ms/iteration", SECONDS, 1e-3},
    {"ms/step", SECONDS, 1e-3},
    {"time to train, h", TRAINING, 3600},
    {"time to train, min", TRAINING, 60},
    {"time to train, s", TRAINING, 1},
    {"time to train", TRAINING, 0},
};

static const char *by_throughput(struct tutti_training_row *row)
{
    const struct tutti_training_row_settings *settings = &row->settings;
    double value = row->results.throughput;
    double samples =
        settings->gpus == TUTTI_UNSTATED ? NAN : (double)settings->gpus * settings->batch_per_gpu;

    if (isnan(samples) && settings->global_batch != TUTTI_UNSTATED)
        samples = (double)settings->global_batch;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strncmp(row->results.unit, units[i].unit, strlen(units[i].unit)) != 0)
            continue;
        if (units[i].per == SECONDS)
            row->measured_step_s = value * units[i].scale;
        else if (units[i].per == STEP)
            row->measured_step_s = 1 / value;
        else if (units[i].per == TRAINING && units[i].scale > 0)
            row->results.time_to_train_s = value * units[i].scale;
        if (units[i].per == TRAINING)
            return "a time to train: no step is stated";
        if (units[i].per != SAMPLE && units[i].per != TOKEN)
            return "";
        if (isnan(samples))
            return "a throughput without gpus and batch_per_gpu";
        if (units[i].per == TOKEN && settings->seq_len == TUTTI_UNSTATED)
            return "tokens a second without seq_len";
        row->measured_step_s =
            (units[i].per == TOKEN ? samples * (double)settings->seq_len : samples) / value;
        return "";
    }
    return row->results.unit[0] == '\0' ? "a throughput without its unit"
                                        : "the unit of the throughput is not known";
}

static const char *by_tokens(struct tutti_training_row *row)
{
    const struct tutti_training_row_settings *settings = &row->settings;

    if (settings->gpus == TUTTI_UNSTATED || settings->global_batch == TUTTI_UNSTATED ||
        settings->seq_len == TUTTI_UNSTATED)
        return "tokens a second without gpus, global_batch and seq_len";
    row->measured_step_s = (double)settings->global_batch * (double)settings->seq_len /
                           (row->results.tokens_per_s_per_gpu * (double)settings->gpus);
    return "";
}

void tutti_training_find_step(struct tutti_training_row *row)
{
    const struct tutti_training_row_results *results = &row->results;
    const char *why = row->why;

    if (results->step_time_s > 0) {
        row->measured_step_s = results->step_time_s;
        why = "";
    } else if (results->memory == TUTTI_TRAINING_MEMORY_OUT) {
        why = "it did not fit: out of memory";
    } else if (results->memory == TUTTI_TRAINING_MEMORY_FAILED) {
        why = "it failed: out of memory, a crash or a time limit";
    } else if (results->throughput > 0) {
        why = by_throughput(row);
    } else if (results->tokens_per_s_per_gpu > 0) {
        why = by_tokens(row);
    } else if (why[0] == '\0') {
        why = results->time_to_train_s > 0 ? "a time to train: no step is stated"
                                           : "neither a step time nor a throughput is stated";
    }
    if (!(row->measured_step_s > 0) || !isfinite(row->measured_step_s)) {
        row->measured_step_s = NAN;
        why = why[0] == '\0' ? "the result is no time above 0" : why;
    }
    row->why = why;
}
