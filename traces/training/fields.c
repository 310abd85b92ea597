/* The fields of a row by name: found, printed, compared. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "traces/training.h"

#define ROW(field, type)     #field, type, false, offsetof(struct tutti_training_row, field)
#define SETTING(field, type) #field, type, true, offsetof(struct tutti_training_row, settings.field)
#define RESULT(field, type)  #field, type, false, offsetof(struct tutti_training_row, results.field)

static const struct tutti_training_field fields[] = {
    {ROW(family, TUTTI_TRAINING_TEXT)},
    {SETTING(system, TUTTI_TRAINING_TEXT)},
    {SETTING(gpu, TUTTI_TRAINING_TEXT)},
    {SETTING(gpus_per_node, TUTTI_TRAINING_COUNT)},
    {SETTING(nodes, TUTTI_TRAINING_COUNT)},
    {SETTING(gpus, TUTTI_TRAINING_COUNT)},
    {SETTING(network, TUTTI_TRAINING_TEXT)},
    {SETTING(framework, TUTTI_TRAINING_TEXT)},
    {SETTING(model, TUTTI_TRAINING_TEXT)},
    {SETTING(params_B, TUTTI_TRAINING_NUMBER)},
    {SETTING(layers, TUTTI_TRAINING_COUNT)},
    {SETTING(hidden, TUTTI_TRAINING_COUNT)},
    {SETTING(heads, TUTTI_TRAINING_COUNT)},
    {SETTING(seq_len, TUTTI_TRAINING_COUNT)},
    {SETTING(vocab, TUTTI_TRAINING_COUNT)},
    {SETTING(precision, TUTTI_TRAINING_TEXT)},
    {SETTING(tp, TUTTI_TRAINING_COUNT)},
    {SETTING(pp, TUTTI_TRAINING_COUNT)},
    {SETTING(dp, TUTTI_TRAINING_COUNT)},
    {SETTING(cp, TUTTI_TRAINING_COUNT)},
    {SETTING(ep, TUTTI_TRAINING_COUNT)},
    {SETTING(vp, TUTTI_TRAINING_COUNT)},
    {SETTING(zero, TUTTI_TRAINING_TEXT)},
    {SETTING(zero_stage, TUTTI_TRAINING_COUNT)},
    {SETTING(zero_group, TUTTI_TRAINING_COUNT)},
    {SETTING(recompute, TUTTI_TRAINING_TEXT)},
    {SETTING(recompute_mode, TUTTI_TRAINING_COUNT)},
    {SETTING(sequence_parallel, TUTTI_TRAINING_COUNT)},
    {SETTING(micro_batch, TUTTI_TRAINING_COUNT)},
    {SETTING(global_batch, TUTTI_TRAINING_COUNT)},
    {SETTING(batch_per_gpu, TUTTI_TRAINING_NUMBER)},
    {SETTING(grad_accum, TUTTI_TRAINING_COUNT)},
    {SETTING(variant, TUTTI_TRAINING_TEXT)},
    {RESULT(step_time_s, TUTTI_TRAINING_NUMBER)},
    {RESULT(tokens_per_s_per_gpu, TUTTI_TRAINING_NUMBER)},
    {RESULT(throughput, TUTTI_TRAINING_NUMBER)},
    {RESULT(unit, TUTTI_TRAINING_TEXT)},
    {RESULT(tflops_per_gpu, TUTTI_TRAINING_NUMBER)},
    {RESULT(mfu_percent, TUTTI_TRAINING_NUMBER)},
    {RESULT(memory_GB, TUTTI_TRAINING_NUMBER)},
    {RESULT(time_to_train_s, TUTTI_TRAINING_NUMBER)},
    {ROW(quality, TUTTI_TRAINING_TEXT)},
    {ROW(source, TUTTI_TRAINING_TEXT)},
    {ROW(note, TUTTI_TRAINING_TEXT)},
};

enum { FIELD_COUNT = sizeof(fields) / sizeof(fields[0]), WORDS_BYTES = 1024 };

const struct tutti_training_field *tutti_training_fields(size_t *ret_count)
{
    *ret_count = FIELD_COUNT;
    return fields;
}

int tutti_training_field_find(const char *name, const struct tutti_training_field **ret,
                              struct tutti_err *err)
{
    char words[WORDS_BYTES] = "";
    char hint[TUTTI_HINT_BYTES];
    size_t used = 0;

    for (size_t i = 0; i < FIELD_COUNT; i++) {
        if (strcmp(fields[i].name, name) == 0) {
            *ret = &fields[i];
            return 0;
        }
        used += (size_t)snprintf(words + used, sizeof(words) - used, "%s%s", i > 0 ? ", " : "",
                                 fields[i].name);
    }
    return tutti_fail(err, TUTTI_EINVAL, "unknown column '%s' (%s%s)", name,
                      tutti_nearest_hint(name, words, hint), words);
}

static const char *at(const struct tutti_training_row *row,
                      const struct tutti_training_field *field)
{
    return (const char *)row + field->offset;
}

static const char *text_of(const struct tutti_training_row *row,
                           const struct tutti_training_field *field)
{
    const char *text;

    memcpy(&text, at(row, field), sizeof(text));
    return text;
}

/* NAN: not stated. */
static double number_of(const struct tutti_training_row *row,
                        const struct tutti_training_field *field)
{
    double number;
    int64_t count;

    if (field->type == TUTTI_TRAINING_COUNT) {
        memcpy(&count, at(row, field), sizeof(count));
        return count == TUTTI_UNSTATED ? NAN : (double)count;
    }
    memcpy(&number, at(row, field), sizeof(number));
    return number;
}

const char *tutti_training_value(const struct tutti_training_row *row,
                                 const struct tutti_training_field *field, char *buf)
{
    double number;

    if (field->type == TUTTI_TRAINING_TEXT)
        return text_of(row, field);
    number = number_of(row, field);
    if (isnan(number))
        return "";
    snprintf(buf, TUTTI_TRAINING_VALUE_BYTES, "%.15g", number);
    if (strtod(buf, NULL) != number)
        snprintf(buf, TUTTI_TRAINING_VALUE_BYTES, "%.17g", number);
    return buf;
}

bool tutti_training_is(const struct tutti_training_row *row,
                       const struct tutti_training_field *field, const char *value)
{
    double number;
    char *end;

    if (field->type == TUTTI_TRAINING_TEXT)
        return strcmp(text_of(row, field), value) == 0;
    number = number_of(row, field);
    if (isnan(number) || *value == '\0')
        return isnan(number) && *value == '\0';
    return fabs(strtod(value, &end) - number) <= 0 && *end == '\0';
}
