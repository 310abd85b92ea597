/* Predicts the cases of logs, each as it was timed; see cases.h. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/predict.h"
#include "tools/cli/nccl_options.h"
#include "tools/sweep/points.h"
#include "tools/validate/cases.h"

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare_but_count(const struct tutti_case *one, const struct tutti_case *other)
{
    const struct tutti_coll_params *a = &one->params, *b = &other->params;
    int order = compare(a->collective, b->collective);

    if (order == 0)
        order = compare(a->dtype, b->dtype);
    if (order == 0)
        order = compare(a->op, b->op);
    if (order == 0)
        order = compare(a->root, b->root);
    return order != 0 ? order : compare(one->iteration_count, other->iteration_count);
}

/* Those of which the same is predicted lie side by side. */
static int compare_cases(const void *left, const void *right)
{
    const struct tutti_case *one = *(struct tutti_case *const *)left;
    const struct tutti_case *other = *(struct tutti_case *const *)right;
    int order = compare_but_count(one, other);

    return order != 0 ? order : compare(one->params.count, other->params.count);
}

static void set_predicted(struct tutti_case *one, const struct tutti_answer *answer)
{
    one->predicted_us = fmax((double)answer->time_ps / (double)TUTTI_PS_PER_US, one->least_us);
    one->algorithm = answer->algorithm;
    one->protocol = answer->protocol;
}

/* Predicts `count` cases that differ in size alone, sorted by it, each as it was timed: a size that
 * a log repeats is predicted once. */
static int predict_group(const struct tutti_ask *as, uint32_t thread_count,
                         struct tutti_case **cases, size_t count, struct tutti_sink *sink,
                         struct tutti_err *err)
{
    struct tutti_point *points = calloc(count, sizeof(*points));
    size_t point_count = 0;
    const struct tutti_algorithm *algorithm = NULL;
    struct tutti_bound_law no_bound = tutti_bound_law_none(as->topo);
    struct tutti_ask ask = *as;
    int status = 0;

    if (points == NULL)
        return tutti_nomem(err);
    if (strcmp(ask.algorithm, "auto") != 0 && !tutti_algorithm_is_nccl(ask.algorithm))
        status = tutti_algorithm_find(ask.algorithm, cases[0]->params.collective, &algorithm, err);
    if (status < 0) {
        free(points);
        return tutti_wrap(err, status, "option '-a'");
    }
    ask.params.collective = cases[0]->params.collective;
    ask.params.dtype = cases[0]->params.dtype;
    ask.params.op = cases[0]->params.op;
    ask.params.root = cases[0]->params.root;
    ask.bound_law = &no_bound; /* nobody looks at bounds here */
    ask.iteration_count = cases[0]->iteration_count;
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && cases[i]->params.count == cases[i - 1]->params.count)
            continue;
        points[point_count++] =
            (struct tutti_point){.algorithm = as->algorithm, .count = cases[i]->params.count};
    }
    tutti_points_predict(&ask, "validate", thread_count, points, point_count, sink);
    for (size_t i = 0, p = 0; status == 0 && i < count; i++) {
        p += points[p].count != cases[i]->params.count;
        status = points[p].status;
        if (status < 0)
            (void)tutti_fail(err, (enum tutti_status) - status, "size %" PRIu64 ": %s",
                             cases[i]->bytes, points[p].err.text);
        else
            set_predicted(cases[i], &points[p].answer);
    }
    free(points);
    return status;
}

int tutti_cases_predict(struct tutti_cases *cases, const struct tutti_ask *ask,
                        uint32_t thread_count, struct tutti_sink *sink, struct tutti_err *err)
{
    size_t count = cases->case_count;
    struct tutti_case **sorted = calloc(count + 1, sizeof(struct tutti_case *));
    int status = 0;

    if (sorted == NULL)
        return tutti_nomem(err);
    for (size_t i = 0; i < count; i++)
        sorted[i] = &cases->cases[i];
    qsort(sorted, count, sizeof(struct tutti_case *), compare_cases);
    for (size_t i = 0; status == 0 && i < count;) {
        size_t end = i + 1;

        while (end < count && compare_but_count(sorted[i], sorted[end]) == 0)
            end++;
        status = predict_group(ask, thread_count, sorted + i, end - i, sink, err);
        i = end;
    }
    free(sorted);
    return status;
}
