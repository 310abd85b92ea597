/* Rows as cases: families and series, anchors, what is predicted of each; see training.h. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "tools/validate/training_judged.h"

/* ---- families and series --------------------------------------------------------------------- */

/* In what rows of a series differ. */
static const char *const scale_columns[] = {
    "gpus_per_node", "nodes", "gpus", "network", "dp", "global_batch", "grad_accum",
};

static bool is_scale(const struct tutti_training_field *field)
{
    bool found = false;

    for (size_t i = 0; i < sizeof(scale_columns) / sizeof(scale_columns[0]); i++)
        found = found || strcmp(field->name, scale_columns[i]) == 0;
    return found;
}

static int compare_family(const struct tutti_training_row *a, const struct tutti_training_row *b)
{
    return strcmp(a->family, b->family);
}

static int compare_series(const struct tutti_training_row *a, const struct tutti_training_row *b)
{
    size_t count;
    const struct tutti_training_field *fields = tutti_training_fields(&count);
    int order = compare_family(a, b);

    for (size_t i = 0; i < count && order == 0; i++) {
        char buf[2][TUTTI_TRAINING_VALUE_BYTES];

        if (fields[i].is_setting && !is_scale(&fields[i]))
            order = strcmp(tutti_training_value(a, &fields[i], buf[0]),
                           tutti_training_value(b, &fields[i], buf[1]));
    }
    return order;
}

static const struct tutti_training_case *case_at(const void *pointer)
{
    return *(struct tutti_training_case *const *)pointer;
}

/* What is equal stays in the order of the cases, which lie in one array. */
static int by_family(const void *left, const void *right)
{
    const struct tutti_training_case *a = case_at(left);
    const struct tutti_training_case *b = case_at(right);
    int order = compare_family(a->row, b->row);

    return order != 0 ? order : (a > b) - (a < b);
}

static int by_series(const void *left, const void *right)
{
    const struct tutti_training_case *a = case_at(left);
    const struct tutti_training_case *b = case_at(right);
    int order = compare_series(a->row, b->row);

    return order != 0 ? order : (a > b) - (a < b);
}

static int group(struct tutti_training_cases *cases, struct tutti_err *err)
{
    size_t count = cases->case_count;
    struct tutti_training_case **order = calloc(count + 1, sizeof(struct tutti_training_case *));

    if (order == NULL)
        return tutti_nomem(err);
    for (size_t i = 0; i < count; i++)
        order[i] = &cases->cases[i];
    qsort(order, count, sizeof(*order), by_family);
    for (size_t i = 0; i < count; i++) {
        bool same = i > 0 && compare_family(order[i - 1]->row, order[i]->row) == 0;

        order[i]->family = same ? order[i - 1]->family : (size_t)(order[i] - cases->cases);
    }
    qsort(order, count, sizeof(*order), by_series);
    for (size_t i = 0; i < count; i++) {
        bool same = i > 0 && compare_series(order[i - 1]->row, order[i]->row) == 0;

        order[i]->series = same ? order[i - 1]->series : (size_t)(order[i] - cases->cases);
    }
    free(order);
    return 0;
}

int tutti_training_cases_new(const struct tutti_training_rows *tables, size_t table_count,
                             struct tutti_training_cases *ret, struct tutti_err *err)
{
    struct tutti_training_cases made = {.case_count = 0};
    size_t count = 0;
    int status;

    for (size_t i = 0; i < table_count; i++)
        count += tables[i].row_count;
    made.cases = calloc(count + 1, sizeof(*made.cases));
    if (made.cases == NULL)
        return tutti_nomem(err);
    for (size_t i = 0; i < table_count; i++) {
        for (size_t j = 0; j < tables[i].row_count; j++) {
            struct tutti_training_case *one = &made.cases[made.case_count++];

            one->row = &tables[i].rows[j];
            one->null_step_s = one->ring_step_s = NAN;
        }
    }
    status = group(&made, err);
    if (status < 0) {
        free(made.cases);
        return status;
    }
    *ret = made;
    return 0;
}

void tutti_training_cases_done(struct tutti_training_cases *cases)
{
    free(cases->cases);
    *cases = (struct tutti_training_cases){.case_count = 0};
}

/* ---- anchors --------------------------------------------------------------------------------- */

int tutti_training_anchor_parse(const char *text, struct tutti_training_anchor *ret,
                                struct tutti_err *err)
{
    static const char each[] = "each:";
    struct tutti_training_anchor anchor = {.each = strncmp(text, each, sizeof(each) - 1) == 0};
    const char *word = anchor.each ? text + sizeof(each) - 1 : text;
    const char *equals = strchr(word, '=');
    char name[64];
    int status;

    if (strcmp(word, "first") == 0) {
        anchor.value = "";
        *ret = anchor;
        return 0;
    }
    if (equals == NULL || equals == word || (size_t)(equals - word) >= sizeof(name))
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%.60s' names no row (first, COLUMN=VALUE, or each:COLUMN=VALUE)", text);
    snprintf(name, sizeof(name), "%.*s", (int)(equals - word), word);
    status = tutti_training_field_find(name, &anchor.field, err);
    if (status < 0)
        return status;
    anchor.value = equals + 1;
    *ret = anchor;
    return 0;
}

bool tutti_training_is_judged(const struct tutti_training_case *one)
{
    return one->row->measured_step_s > 0 && strcmp(one->row->quality, "degraded") != 0;
}

static size_t group_of(const struct tutti_training_case *one,
                       const struct tutti_training_anchor *anchor)
{
    return anchor->each ? one->series : one->family;
}

static bool may_be_anchor(const struct tutti_training_case *one,
                          const struct tutti_training_anchor *anchor)
{
    return tutti_training_is_judged(one) && one->row->problem[0] == '\0' &&
           (anchor->field == NULL || tutti_training_is(one->row, anchor->field, anchor->value));
}

int tutti_training_anchor_choose(struct tutti_training_cases *cases,
                                 const struct tutti_training_anchor *anchor, struct tutti_err *err)
{
    size_t count = cases->case_count;
    size_t *judged = calloc(3 * count + 1, sizeof(*judged)); /* of a group, by its first case */
    size_t *chosen;                                          /* of a group: index + 1 */
    size_t *of_family; /* for series that have none of their own */

    if (judged == NULL)
        return tutti_nomem(err);
    chosen = judged + count;
    of_family = chosen + count;
    for (size_t i = 0; i < count; i++)
        judged[group_of(&cases->cases[i], anchor)] += tutti_training_is_judged(&cases->cases[i]);
    for (size_t i = 0; i < count; i++) {
        struct tutti_training_case *one = &cases->cases[i];
        size_t group = group_of(one, anchor);

        one->anchor = chosen[group] == 0 && judged[group] >= 2 && may_be_anchor(one, anchor);
        if (!one->anchor)
            continue;
        chosen[group] = i + 1;
        if (of_family[one->family] == 0)
            of_family[one->family] = i + 1;
    }
    for (size_t i = 0; i < count; i++) {
        size_t own = chosen[group_of(&cases->cases[i], anchor)];
        size_t at = own != 0 ? own : of_family[cases->cases[i].family];

        cases->cases[i].anchored_by = at == 0 ? NULL : &cases->cases[at - 1];
    }
    free(judged);
    return 0;
}

/* ---- predictions ----------------------------------------------------------------------------- */

/* Without "FILE: line N: ", which stand beside it. */
static const char *problem_of(const struct tutti_training_row *row)
{
    char place[32];
    const char *found;

    snprintf(place, sizeof(place), ": line %u: ", row->line);
    found = strstr(row->problem, place);
    return found == NULL ? row->problem : found + strlen(place);
}

static int predict_one(struct tutti_training_case *one,
                       const struct tutti_training_predictor *predictor, struct tutti_err *err)
{
    const struct tutti_training_case *anchor = one->anchored_by;
    struct tutti_training_question question = {
        .settings = &one->row->settings,
        .of_a_pass = one->row->by_throughput,
        .anchor = anchor == NULL ? NULL : &anchor->row->settings,
        .anchor_step_s = anchor == NULL ? NAN : anchor->row->measured_step_s,
    };
    struct tutti_training_prediction prediction = {.memory_GB = NAN, .fits = -1};
    struct tutti_err why = {""};
    int status;

    one->predicted = false;
    snprintf(one->why, sizeof(one->why), "%s", problem_of(one->row));
    if (one->why[0] != '\0')
        return 0;
    status = predictor->predict(predictor->context, &question, &prediction, &why);
    if (status == -TUTTI_EINVAL || status == -TUTTI_ELACK) {
        assert(why.text[0] != '\0');
        snprintf(one->why, sizeof(one->why), "%.*s", (int)sizeof(one->why) - 1, why.text);
        return 0;
    }
    if (status < 0)
        return tutti_fail(err, (enum tutti_status) - status, "%s: line %u: %s", one->row->file,
                          one->row->line, why.text);
    assert(prediction.step_s > 0);
    one->prediction = prediction;
    one->predicted = true;
    return 0;
}

int tutti_training_predict(struct tutti_training_cases *cases,
                           const struct tutti_training_predictor *predictor, struct tutti_err *err)
{
    int status = 0;

    for (size_t i = 0; i < cases->case_count && status == 0; i++)
        status = predict_one(&cases->cases[i], predictor, err);
    return status < 0 ? status : tutti_training_null(cases, err);
}
